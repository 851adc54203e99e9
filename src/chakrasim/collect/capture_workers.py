"""Ranks captured in processes of their own, a few at a time."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from typing import Any

from chakrasim.errors import InputError


def run_all(task: Callable[[int], object], ranks: Iterable[int], workers: int) -> dict[int, Any]:
    """``task(rank)`` for all ranks, each in a forked process, at most ``workers`` at a time.

    An InputError of a task is raised here. A task's result must be picklable.
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
            for connection in wait(list(running)):
                rank, process = running.pop(connection)
                done[rank] = _received(connection, process, rank)
    finally:
        for connection, (_, process) in running.items():
            process.terminate()
            process.join()
            connection.close()
    for result in done.values():
        if isinstance(result, InputError):
            raise result
    return done


def _received(connection: Any, process: Any, rank: int) -> object:
    try:
        result = connection.recv()
    except EOFError:
        process.join()
        raise InputError(
            f"the process that captured rank {rank} died",
            found=f"exit code {process.exitcode}",
            remedy="a signal 9 is what a machine short of memory sends: capture fewer ranks at a time with --workers 1",
        ) from None
    finally:
        connection.close()
    process.join()
    return result


def _answer(task: Callable[[int], object], rank: int, connection: Connection) -> None:
    """In the child: run the task and send what it gives."""
    try:
        result: object = task(rank)
    except InputError as error:
        result = InputError(
            error.message,
            file=error.file,
            place=error.place,
            found=error.found,
            expected=error.expected,
            remedy=error.remedy,
        )
    connection.send(result)
    connection.close()
    os._exit(0)  # what the program left behind (threads, process groups) is not asked
