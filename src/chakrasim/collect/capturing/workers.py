"""Ranks captured in processes of their own, a few at a time."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from chakrasim.errors import InputError

Say = Callable[[str], None]
End = Callable[[InputError], None]


def require_fork() -> None:
    """Raise InputError where processes cannot be forked (Windows): each rank is captured in a copy of this process."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise InputError(
            "a program is captured in copies of this process, which this system cannot make (fork)",
            remedy="capture under Linux (on Windows in WSL); the job that is written can be simulated here",
        )


def run_all(
    task: Callable[[int, Say, End], object], ranks: Iterable[int], workers: int, progress: Callable[[int, str], None]
) -> dict[int, Any]:
    """``task(rank, say, end)`` for all ranks, each in a forked process, at most ``workers`` at a time.

    An InputError of a task is raised here. A task's result must be picklable. What a task says meanwhile, from
    whichever thread, goes to ``progress``; with ``end`` it is over at once.
    """
    waiting, done = list(dict.fromkeys(ranks)), {}
    running: dict[Any, tuple[int, Any]] = {}
    context = multiprocessing.get_context("fork")
    try:
        while waiting or running:
            while waiting and len(running) < max(workers, 1):
                rank = waiting.pop(0)
                mine, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_answer, args=(task, rank, theirs), daemon=True)
                process.start()
                theirs.close()
                running[mine] = rank, process
            ready: list[Any] = wait(list(running))
            for connection in ready:
                rank, process = running[connection]
                result = _received(connection, process, rank)
                if isinstance(result, _Saying):
                    progress(rank, result.text)
                    continue
                del running[connection]
                connection.close()
                process.join()
                done[rank] = result
    finally:
        for connection, (_, process) in running.items():
            process.kill()  # a program may handle other signals in its own way
            process.join()
            connection.close()
    for result in done.values():
        if isinstance(result, InputError):
            raise result
    return done


@dataclass(frozen=True)
class _Saying:
    text: str


def _received(connection: Any, process: Any, rank: int) -> object:
    """What a process sends next."""
    try:
        return connection.recv()
    except EOFError:
        process.join()
        raise InputError(
            f"the process that captured rank {rank} died",
            found=f"exit code {process.exitcode}",
            remedy="a signal 9 is what a machine short of memory sends: capture fewer ranks at a time with --workers 1",
        ) from None


def _answer(task: Callable[[int, Say, End], object], rank: int, connection: Connection) -> None:
    """In the child: run the task and send what it gives."""
    sending = threading.Lock()

    def send(message: object) -> None:
        with sending:
            connection.send(message)

    def end(result: object) -> None:
        send(result)
        os._exit(0)  # what the program left behind (threads, process groups) is not asked

    try:
        result: object = task(rank, lambda text: send(_Saying(text)), end)
    except InputError as error:
        result = InputError(
            error.message,
            file=error.file,
            place=error.place,
            found=error.found,
            expected=error.expected,
            remedy=error.remedy,
        )
    end(result)
