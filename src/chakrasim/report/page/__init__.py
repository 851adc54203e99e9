"""Results as a page: one HTML file that holds its charts' program and its data, and asks nobody else for anything.

A command gets its page in three steps::

    add_report(output)                                    # cli/page.py: the option --report
    check_report(options)                                 # beside check_targets, before hours of work
    write_report(options, lambda: page_of(found), inputs) # where --json is written; the function runs only if asked for

``page_of`` is a function here that makes a `Page` (`parts.py`): question, verdict (a few `Fact`), and parts in the
order in which they are read. There is a part for each way to show something: `Text`, `Table` (`table_of` makes one of
any `Section`, so that the page's tables are the command's), `Bars`, `Heat`, `Timeline`, `Scatter`, `Image`;
`sections_page` of `answer.py` makes a page of a command's sections and some parts. A `Series` of figures has a ``key``:
where the same figures stand in the command's JSON, ``parts_ns.compute`` for example, with ``explain:`` before it in
that of another command, or "" where they do not. What it holds is what stands there, so that page and JSON cannot
differ.

`render.py` makes the file; what is trusted in it are the scripts of this folder alone, named by their hashes in a
Content-Security-Policy, and names reach the page as text only. `inputs.py` says which files a result was made from.

``assets/echarts.min.js`` is Apache ECharts 6.1.0 as its package in npm's registry has it (``dist/echarts.min.js``); a
test has its hash. To renew it, replace the file, its licence and notice, and the hash.
"""
