# SPDX-License-Identifier: Apache-2.0
"""Asks a recording what an engine's own log answers: which runs, tasks, tools and failures there were."""

import collections


def of_engine(recording, engine):
    return [process for process in recording.processes if process["engine"] == engine]


def runs_of(recording, engine):
    return {process.run_id for process in of_engine(recording, engine)}


def tasks_of(recording, engine):
    """Processes by (run, task). Those of the engine itself, in no task, are left out."""
    tasks = collections.defaultdict(list)
    for process in of_engine(recording, engine):
        if process.task_id is not None:
            tasks[process.run_id, process.task_id].append(process)
    return tasks


def tools_of(processes):
    """Every tool that one of these processes was at some time."""
    tools = {process["tool"] for process in processes}
    for process in processes:
        tools.update(image["tool"] for image in process["images"])
    return tools - {None}


def report_names(recording, *names):
    missing = [name for name in names if name.lower() not in recording.report.lower()]
    assert not missing, f"the report does not name {missing}:\n{recording.report[-6000:]}"


def report_shows_failure(recording):
    assert "fail" in recording.report.lower(), f"no failure in the report:\n{recording.report[-6000:]}"
