"""Where things stand in the arena: the one array of 64-bit words that holds a whole simulation.

A *record* is a run of words; it is named by the index of its first word, and its fields are the offsets below, so
that ``m[stream + at.STREAM_CHUNK]`` reads like a C struct. Index 0 is never a record: it stands for "none".

Everything lives in the arena; it grows between two events, and offsets stay valid.
"""

from __future__ import annotations

NONE = 0
BACK = -1
ONWARD = 1
YES = True
NO = False
# Arguments of kernels are given by these names, not as literals: Numba compiles a function anew for every literal.
NO_REDUCTION = -1
LOCAL_BUNDLE_NS = 10
CONTROL_BYTES = 8192
NO_STEPS = 0
ONE_STEP = 1

# --- header: single words at fixed places ----------------------------------------------------------------------------
NOW = 1
TOP = 2  # first word never handed out
RESERVE = 3  # words that must be free before an event is processed
FOLDED = 4  # 1: a slot stands for a class of ranks
RANKS = 5
SLOTS = 6
SLOT_TABLE = 7  # first slot record; slot i follows at i * SLOT_WORDS
SLOT_OF = 8  # rank -> slot number (only read when folded)
EVENT_WORDS = 9
STREAM_SIZE = 10
WHEEL = 11  # heads and tails of the exact ticks
WHEEL_UP = 12  # heads and tails of the coarser levels
WHEEL_BITS = 13
WHEEL_TIME = 14  # the time the wheel's windows are aligned to
SWEEP = 15  # the sweep being run
INDEX = 16  # hash index of the match entries
INDEX_MASK = 17
INDEX_COUNT = 18
GENERATION = 19  # of the index: cached entries of an older one are stale
DIMS = 20
DIM_TABLE = 21
NETWORK = 22  # the model: UNAWARE, AWARE, FLOW or PACKET
LINK_TABLE = 23
PORTS = 24
RUNNING_LIMIT = 25
QUEUES_PER_DIM = 26
ENDPOINT_NS = 27
RENDEZVOUS = 28
MEMORY_KIND = 29
SERVERS = 30
RANKS_PER_SERVER = 31
SHARED_BUS = 32
FIRED = 33  # slots whose first issue pass has run
FINISHED = 34  # number of slots finished
FINISH_ORDER = 35  # table of slot numbers in order of finishing
EVENTS = 36
MESSAGES = 37
MESSAGE_BYTES = 38
ERROR = 39
ERROR_SLOT = 40
ERROR_NODE = 41
LINEAGE = 42  # of the event being processed (folded only)
ROOT = 43
HAZARD = 44  # 1 + digit whose symmetry the run has broken
DIGITS = 45
DIGIT_TABLE = 46
PASSED = 47  # slots whose repeated issue pass has run, when the clock ran dry
BUS_L = 48
BUS_O = 49
BUS_G_GAP = 50
BUS_REDUCTION = 51
MISMATCHES = 52  # collectives that met a different one under the same group and sequence number
WAKE = 53  # flow: when the next ON_WAKE comes
CHANGES_DUE = 54  # flow: 1 when links are to change before rates are sought
UNEQUAL = 55  # flow: collectives whose members named different sizes
STREAMS = 56  # 1: streams run side by side
NODES_DONE = 57
REALS = 58
SCHEDULED = 59  # events scheduled so far: the order of the next
CURRENT = 60  # order of the event being processed
STARTING = 61  # flow: messages that are to join the sharing, in order
STARTING_TAIL = 62
UNSETTLED = 63  # flow: 1 when rates have to be sought before the clock goes on
MOST_HELD = 64  # streams: what communication holds of a device at most
GROUP_DIMS = 65  # streams: dimensions of queues that each group of a graph has; else 0: all share theirs
OUTBOX = 66  # packet: what was scheduled or sent and the network has not been told of, in order
OUTBOX_TAIL = 67
WHOLES = 68  # 1: rings are reckoned as wholes
SCRATCH = 69  # room for the members of a ring
MOST_TASK_NS = 70  # wholes: what a ring's bundle or reduction takes at most
SINCE = 71  # wholes: when the event being processed was scheduled,
BY = 72  # and by whom: OWN, BY_WHOLE, or the rank that sent a message
IN_WHOLE = 73  # wholes: 1 while a ring's end is being scheduled
IN_SWEEP = 74  # wholes: 1 if the event being processed is a sweep
FREE_LISTS = 75  # FREE_LISTS + w: records of w words that can be used again
HEADER_WORDS = 203

OWN = -1
BY_WHOLE = -2
AMBIGUOUS = -1  # as a hazard: an order that only a run of all messages knows

UNAWARE = 0
AWARE = 1
FLOW = 2
PACKET = 3

# --- the event queue -------------------------------------------------------------------------------------------------
EXACT_BITS = 13
EXACT = 1 << EXACT_BITS
LEVEL_BITS = 10
LEVEL = 1 << LEVEL_BITS
LEVELS = 5

EVENT_NEXT = 0
EVENT_TIME = 1
EVENT_ORDER = 2  # order of scheduling << KIND_BITS | kind
EVENT_DATA = 3
EVENT_LINEAGE = 4  # folded only
EVENT_ROOT = 5
EVENT_SINCE = EVENT_LINEAGE  # wholes only: when it was scheduled

KIND_BITS = 4
ON_SWEEP = 1  # data: sweep
ON_LINK_FREE = 2  # data: link
ON_HOP = 3  # data: message
ON_ARRIVAL = 4  # data: message
ON_STREAM_ARRIVAL = 5  # data: match entry of a collective's message
ON_LATE_STREAM = 6  # data: stream
ON_LATE_CALL = 7  # data: call
ON_JOIN = 8  # data: message whose first byte has come through
ON_WAKE = 9  # a flow was to end
ON_CHANGE = 10  # links change
ON_WHOLE = 11  # data: member, of whose last bundle it is the begin

# --- a rank's work at one tick ---------------------------------------------------------------------------------------
SWEEP_NEXT = 0
SWEEP_TIME = 1
SWEEP_HEAD = 2
SWEEP_TAIL = 3
SWEEP_SLOT = 4
SWEEP_SINCE = 5  # of its last task: when it was registered,
SWEEP_LAST_BY = 6  # and by whom
SWEEP_BY = 7  # the same of its first
SWEEP_WORDS = 8

TASK_NEXT = 0
TASK_KIND = 1
TASK_A = 2
TASK_B = 3
TASK_WORDS = 4

DO_BUNDLE = 1  # stream, reduction in ns or -1
DO_NODE = 2  # node
DO_SERVER = 3  # memory server
DO_CUSTOM = 4  # stream, node of the custom algorithm
DO_BUS_SENT = 5  # bus endpoint
DO_BUS_RECEIVED = 6  # bus endpoint
DO_BUS_PROCESSED = 7  # bus endpoint
DO_MEET = 8  # node
DO_BEGIN = 9  # node
DO_START = 10
DO_WORK = 11  # node that computes beside streams
DO_WHOLE = 12  # member of a ring, reduction in ns or -1

# --- a simulated rank, or a class of equal ranks ---------------------------------------------------------------------
# What every node of a workload reads and writes comes first, together: each event is of another rank, and all of a rank
# has to be fetched from memory.
SLOT_NODES = 0  # static nodes of its graph
SLOT_WAITING = 1  # unfinished parents, by node
SLOT_FREE = 2
SLOT_ONGOING = 3
SLOT_BUSY = 4  # nodes in flight by class
SLOT_HEAPS = 8  # free nodes, a heap a resource class
SLOT_HEAP_SIZE = 12  # four numbers
SLOT_PENDING = 16  # nodes that became free during the pass
SLOT_PENDING_COUNT = 17
SLOT_IN_PASS = 18
SLOT_SWEEPS = 19
SLOT_STARTS = 20  # issue times by node, or 0
SLOT_ENDS = 21
SLOT_ISSUED = 22  # numbers of the nodes in order of issue, or 0
SLOT_ISSUED_COUNT = 23
SLOT_ACTIVE = 24  # nodes in flight by category
SLOT_SINCE = 28  # time of the last change of activity
SLOT_DONE = 29
SLOT_GPU_NS = 30
SLOT_OWN = 31  # plans by collective of the graph, then peers: what ranks that share nodes do not share
SLOT_TIMES = 32  # ns by set of active categories: 16 numbers; streams: ns by part
SLOT_RANK = 48
SLOT_NODE_COUNT = 49
SLOT_SEQUENCES = 50  # collectives issued so far, by group of the graph
SLOT_QUEUES = 53
SLOT_DIM_COUNTERS = 54
SLOT_TREE_COUNTERS = 55
SLOT_BYTES_SENT = 56
SLOT_SKIPPED = 57
SLOT_LAST_TIME = 58  # of the last event at this rank (folded, and with rings as wholes)
SLOT_LAST_LINEAGE = 59
SLOT_LAST_ROOT = 60
SLOT_LAST_SINCE = SLOT_LAST_LINEAGE  # wholes: when it was scheduled, and by whom
SLOT_LAST_BY = SLOT_LAST_ROOT
SLOT_FINISH = 61
SLOT_FINISH_LINEAGE = 62
SLOT_FINISH_ROOT = 63
SLOT_BUS = 64  # the NPU's endpoint of the shared bus
SLOT_START = 65  # ns: when its first issue pass is
SLOT_HELD = 66  # streams: what communication holds of the device, of WHOLE
SLOT_WORKS = 67  # streams: compute nodes in progress
SLOT_HOST = 68  # streams: ns that the host is behind the launch times of the trace, since it waited
SLOT_ROLES = 69  # streams: communication by role
SLOT_ROLE_COUNT = 70
SLOT_WORDS = 72

CPU = 0
GPU = 1
COMM = 2
RECV = 3  # resource class without limit

CAT_CPU = 0
CAT_GPU = 1
CAT_COMM = 2
CAT_MEMORY = 3
CAT_NONE = 4

# --- streams that run side by side -----------------------------------------------------------------------------------
SHARE_BITS = 16
WHOLE = 1 << SHARE_BITS  # a whole device

WORK_NEXT = 0
WORK_NODE = 1
WORK_LEFT = 2  # ns of an undisturbed device times WHOLE
WORK_SINCE = 3
WORK_RATE = 4  # of WHOLE
WORK_END = 5
WORK_LAUNCHED = 6  # ns: it ends no earlier
WORK_WORDS = 7

ROLE_MOVING = 0  # nodes in flight: of which bytes may move,
ROLE_WAITING = 1  # collectives that not all of their ranks have come to,
ROLE_AWAITED = 2  # receives whose message has not been sent
ROLE_EXPOSED_NS = 3  # in which bytes moved and nothing was computed,
ROLE_WAITED_NS = 4  # in which it waited for other ranks and nothing was computed,
ROLE_HIDDEN_NS = 5  # in which either was beside compute
ROLE_WORDS = 6

IN_COMPUTE = 0  # the places of `PARTS` in SLOT_TIMES
IN_OVERLAP = 1
IN_EXPOSED_COMM = 2
IN_WAITING = 3
IN_BUBBLE = 4
IN_MEMORY = 5
IN_CPU = 6
IN_IDLE = 7

QUEUE_HEAD = 0
QUEUE_TAIL = 1
QUEUE_RUNNING = 2
QUEUE_WORDS = 3

# --- a node of a graph (static) --------------------------------------------------------------------------------------
NODE_KIND = 0
NODE_CLASS = 1
NODE_CATEGORY = 2
NODE_ROLE = 3  # streams: of a communication, its place in SLOT_ROLES
NODE_CHILDREN = 4  # first and past-the-last word of its children
NODE_CHILDREN_END = 5
NODE_A = 6
NODE_B = 7
NODE_C = 8
NODE_D = 9  # streams: 2 * (1 + ns after which the host has launched it), and 1 if the host waits for its end
NODE_WORDS = 10

RUN_DELAY = 1  # A: ns, B: ns counted as GPU busy time, C: ns before it begins (replays)
RUN_SKIP = 2
RUN_MEMORY = 3  # A: service time in ns
RUN_COLLECTIVE = 4  # A: where in SLOT_OWN its plan is (no plan: done at once), B: group of the graph
RUN_SEND = 5  # A: where in SLOT_OWN its peer is, B: bytes, C: tag
RUN_RECV = 6
RUN_WORK = 8  # A: ns, C: how much of it suffers from what communication holds, of WHOLE
RUN_MEETING = 7  # A: meeting, B: ns from its start, C: ns before it comes, D: COUNTS, WAITS or both

# --- meetings: replayed collectives and messages, whose ranks wait for each other -------------------------------------
COUNTS = 1  # others wait for this rank
WAITS = 2  # this rank waits for those that count
MEETING_MISSING = 0  # ranks that others wait for and that have not come
MEETING_WAITING = 1  # requests of those that wait
MEETING_WORDS = 2

# --- a collective as a workload's node asks for it (static) ----------------------------------------------------------
PLAN_CHUNKS = 0
PLAN_PHASES = 1  # of a chunk
PLAN_GROUP = 2
PLAN_SIGNATURE = 3
PLAN_RINGS = 4  # chunks take the phases of one ring after another
PLAN_FIRST_WAY = 5  # of the first ring's messages, or 0
PLAN_HELD = 6  # of a device while it runs, of WHOLE
PLAN_FIRST_PHASE = 7  # those of the first ring, of the second, ...

PHASE_DIM = 0
PHASE_QUEUE_RULE = 1
PHASE_TREE_COUNTER = 2  # or -1
PHASE_SCHEDULES = 3  # two: clockwise or tree 0, anticlockwise or tree 1
PHASE_WORDS = 5

QUEUE_NEXT = 0
QUEUE_FIRST = 1
QUEUE_LAST = 2
QUEUE_ZERO = 3

SCHEDULE_MEMBERS = 0
SCHEDULE_STRIDE = 1
SCHEDULE_EXTENT = 2  # ranks of the line of which they are members
SCHEDULE_LIST = 3  # by index: how far along the line; 0: all of the line are members
SCHEDULE_FIND = 4  # (place on the line, index) pairs in order of place
SCHEDULE_LOCAL = 5  # 1: fixed 10 ns bundles
SCHEDULE_PROGRAM_OF = 6  # table by member, or 0: all run the first
SCHEDULE_CUSTOM = 7  # 1: nodes of its own, 2: one activity
SCHEDULE_PROGRAM = 8  # the first program; of an activity, its number, and SCHEDULE_FIND its bytes
A_GRAPH = 1
AN_ACTIVITY = 2

PROGRAM_INITIAL = 0
PROGRAM_BUNDLES = 1
PROGRAM_START_OPS = 2
PROGRAM_START_OPS_END = 3
PROGRAM_GATE_ROWS = 4
PROGRAM_GATE_RECEIVES = 5
PROGRAM_GATE_BURST = 6
PROGRAM_XOR = 7
PROGRAM_ROWS = 8

ROW_REPEAT = 0
ROW_BYTES = 1
ROW_REDUCE_NS = 2  # or -1
ROW_FROM_MEMORY = 3
ROW_SEND_BACK = 4
ROW_OPS = 5
ROW_OPS_END = 6
ROW_WORDS = 7

OP_SEND = 0
OP_PEER = 1
OP_BYTES = 2
OP_WORDS = 3

CUSTOM_NODES = 0
CUSTOM_NODE_TABLE = 1
CUSTOM_FREE_COUNT = 2
CUSTOM_FREE_LIST = 3
CUSTOM_BUCKETS = 4
CUSTOM_SPARE = 5  # state blocks to use again

CNODE_KIND = 0
CNODE_PEER = 1
CNODE_BYTES = 2
CNODE_TAG = 3
CNODE_DELAY_NS = 4
CNODE_PARENTS = 5
CNODE_CHILDREN = 6
CNODE_CHILDREN_END = 7
CNODE_ID = 8
CNODE_WORDS = 9

CSTATE_FREE_COUNT = 0
CSTATE_BUCKETS = 1
CSTATE_ONGOING = 2
CSTATE_LEFT = 3
CSTATE_FREE_LIST = 4  # nodes words, then the unfinished parents: nodes words

# --- a chunk of a collective on one rank -----------------------------------------------------------------------------
STREAM_NEXT = 0
STREAM_SLOT = 1
STREAM_GROUP = 2  # group and sequence number
STREAM_CHUNK = 3
STREAM_PLAN = 4
STREAM_PHASE = 5
STREAM_DONE = 6
STREAM_RECEIVED = 7
STREAM_PERFORMED = 8
STREAM_PROGRAM = 9
STREAM_LAUNCH_ROW = 10
STREAM_LAUNCH_LEFT = 11
STREAM_PERFORM_ROW = 12
STREAM_PERFORM_LEFT = 13
STREAM_INDEX = 14
STREAM_SCHEDULE = 15
STREAM_BASE = 16
STREAM_TO = 17  # the last send: peer, bytes, entry, generation
STREAM_FROM = 21  # the last receive
STREAM_CUSTOM = 25
STREAM_WAY = 26  # of its messages, 0: that of any message between two ranks
STREAM_COLLECTIVE = 27
STREAM_QUEUES = 28  # by phase: queue and variant
STREAM_FIXED = 28

MEMBER_NEXT = 0  # a rank that has come to a ring that is reckoned as a whole
MEMBER_SLOT = 1
MEMBER_NODE = 2
MEMBER_PLAN = 3
MEMBER_CAME = 4
MEMBER_LASTS = 5  # how long its last bundle takes,
MEMBER_REDUCES = 6  # and the reduction behind it, or -1
MEMBER_WORDS = 7

COLLECTIVE_NODE = 0
COLLECTIVE_LEFT = 1  # streams (chunks) that have not ended
COLLECTIVE_WORDS = 2

# --- matching of messages --------------------------------------------------------------------------------------------
ENTRY_NEXT = 0
ENTRY_GROUP = 1  # group and sequence number; 0: point to point
ENTRY_TAG = 2  # chunk, or tag
ENTRY_PAIR = 3  # source << 32 | destination
ENTRY_BYTES = 4
ENTRY_SENT = 5  # on the way
ENTRY_POSTED = 6  # receives without a message
ENTRY_ARRIVED = 7  # messages without a receive
ENTRY_STREAM = 8
ENTRY_CALLS = 9
ENTRY_CALLS_TAIL = 10
ENTRY_SIGNATURE = 11  # what kind of collective the first of the two sides runs
ENTRY_LARGEST = ENTRY_SENT  # of an activity: the largest size that a member has named,
ENTRY_UNEQUAL = ENTRY_POSTED  # and 1 if they differ
ENTRY_WORDS = 12
CONTROL_TAG = 1 << 40
ACTIVITY_TAG = (1 << 40) - 1

CALL_NEXT = 0
CALL_KIND = 1
CALL_SLOT = 2
CALL_A = 3
CALL_B = 4
CALL_GROUP = 5  # what a rendezvous does next: the real send or receive
CALL_TAG = 6
CALL_PEER = 7
CALL_BYTES = 8
CALL_THEN = 9
CALL_WORDS = 10

CALL_NODE = 1  # a workload's node A has completed
CALL_CUSTOM = 2  # node B of stream A's custom algorithm has completed
CALL_STREAM = 3  # stream A has received
CALL_REAL_SEND = 4
CALL_REAL_RECV = 5

# --- the network -----------------------------------------------------------------------------------------------------
DIM_MEMBERS = 0
DIM_STRIDE = 1
DIM_KIND = 2  # a number of `routes.py`
DIM_PORT = 3  # its first port
DIM_PORTS = 4
DIM_ROUTE = 5  # addresses, of topologies that are not built in
DIM_ENDS = 6
DIM_HOPS = 7
DIM_WORDS = 8

LINK_STATE = 0
LINK_HEAD = 1
LINK_TAIL = 2
LINK_DIM = 3
LINK_BUSY_NS = 4
LINK_BYTES = 5
LINK_MESSAGES = 6
LINK_QUEUED = 7
LINK_QUEUED_MOST = 8
LINK_LAST_TIME = 9
LINK_LAST_LINEAGE = 10
LINK_LAST_ROOT = 11
LINK_FREE_AT = 12  # when it is free, or was
LINK_FREE_ORDER = 13  # quiet only: the order of the event that would say so
LINK_CONTENDED = 14
LINK_WORDS = 15

IDLE = 0
BUSY = 1  # its release is scheduled
QUIET = 2  # busy, and nobody has asked for it since: its release is not scheduled

MSG_NEXT = 0
MSG_ENTRY = 1
MSG_AT = 2  # the NPU it stands at, or left last
MSG_TO = 3
MSG_BYTES = 4
MSG_CALL = 5  # what its arrival means to the sender
MSG_PLACE = 6  # at a switch: its place in the dimension, else 0
MSG_ROOT = 7  # folded: in the frame of the sender
MSG_ANCHOR = 8  # the NPU whose link it waits for
MSG_ROUTE = (
    MSG_PLACE  # flow: its route when the latency is paid, else -1 less the number of its way; packet: that number
)
MSG_BEHIND = MSG_ROOT  # flow: the message that waits for its end, on the same route
MSG_NUMBER = MSG_ANCHOR  # flow: how many were sent before
MSG_WORDS = 9
PAIR_BITS = 31  # of the destination in a pair of ranks
WAY = 1 << (PAIR_BITS - 1)  # instead of a destination: a message on a way of its own

POST_NEXT = 0
POST_TIME = 1
POST_MESSAGE = 2  # 0: an event was scheduled
POST_WORDS = 3

# --- remote memory ---------------------------------------------------------------------------------------------------
SERVER_BUSY = 0
SERVER_HEAD = 1
SERVER_TAIL = 2
SERVER_WORDS = 3

REQUEST_NEXT = 0
REQUEST_SLOT = 1
REQUEST_NODE = 2
REQUEST_NS = 3
REQUEST_WORDS = 4

NO_REMOTE = 0
PER_NPU = 1
PER_NODE = 2
POOL = 3

# --- the shared bus --------------------------------------------------------------------------------------------------
BUS_PARTNER = 0
BUS_LOWER = 1  # the NPU's endpoint of the lower bus, or 0
BUS_STATE = 3
BUS_BEFORE = 4
BUS_LAST = 5
BUS_READS = 6
BUS_SENDS = 7
BUS_SENDS_TAIL = 8
BUS_RECEIVES = 9
BUS_RECEIVES_TAIL = 10
BUS_RECEIVE_COUNT = 11
BUS_WORK = 12
BUS_WORK_TAIL = 13
BUS_WORKING = 14
BUS_SLOT = 15
BUS_LOWER_KIND = 16  # 1: uses the lower bus's gap per byte
BUS_WORDS = 17

BUS_FREE = 0
BUS_SENDING = 1
BUS_RECEIVING = 2

TRANSFER_NEXT = 0
TRANSFER_BYTES = 1
TRANSFER_PROCESS = 2
TRANSFER_BACK = 3
TRANSFER_THEN = 4  # what the completion does
TRANSFER_A = 5
TRANSFER_B = 6
TRANSFER_WORDS = 7

THEN_BUNDLE = 1  # A: stream, B: reduction in ns or -1
THEN_SEND = 2  # A: endpoint, B: transfer to append to its sends
THEN_DELIVER = 3
THEN_WORK = 4

# --- errors of a run -------------------------------------------------------------------------------------------------
TIME_OVERFLOW = 1
BROKEN_ROUTE = 2

LATEST = (1 << 63) - 1  # ns
ROUNDING = 2048  # of a real number next to it

# --- why the loop returned -------------------------------------------------------------------------------------------
DRY = 0
NEED_SPACE = 1
PAUSED = 2
BROKEN_SYMMETRY = 3
FAILED = 4
TICK_DONE = 5
NEED_ROUTES = 6
NEED_SLOTS = 7
NEED_CHANGES = 8
