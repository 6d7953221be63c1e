"""Tuned schedules in the cache on disk, by the text of a nest or group and the processor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TypeAlias

from xdsl.parser import Parser

from ocannl.dialects.loops.schedule import Schedule, parse_schedule, schedule_text
from ocannl.dialects.records import dataclass
from ocannl.lowering.pipelines import new_context
from ocannl.passes.analysis.schedules.schedule_candidates import Choice, Choices, FindChoices, no_choices
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.cache.compiler_version import VERSION
from ocannl.runtime.cache.object_cache import ObjectCache, entry_key
from ocannl.runtime.host.processor import host

Measured: TypeAlias = Mapping[Choices, float]
FindMeasured: TypeAlias = Callable[[str], Measured]


def nothing_measured(text: str) -> Measured:
    """Nothing, of any text."""
    return {}


@dataclass(frozen=True)
class Tunings:
    """Tuned schedules by the text of a nest or group; equal versions have equal schedules."""

    version: str
    find: FindChoices
    measured: FindMeasured
    """The clock ticks of the choices for a nest or group that tuning has run."""


def tuned_target(pipeline: str, target: TargetDescription) -> str:
    """The pipeline and target that tuned schedules are for, as a part of their key."""
    return f"{pipeline} {target}"


def stored_tunings(store: ObjectCache, target: str) -> Tunings | None:
    """The tuned schedules in the cache for this processor and compiler; None if there are none."""
    version = store.get(version_key(target))
    if version is None:
        return None

    def find(text: str) -> Choices | None:
        found = store.get(step_key(text, target))
        return None if found is None else decoded(found.decode())

    def measured(text: str) -> Measured:
        found = store.get(measured_key(text, target))
        return {} if found is None else {decoded(choices): ticks for choices, ticks in json.loads(found)}

    return Tunings(version.decode(), find, measured)


def with_tunings(
    before: Tunings | None, found: Mapping[str, Choices], measured: Mapping[str, Measured]
) -> Tunings:
    """Tuned schedules by the text of a nest or group; where there are none, those from before."""
    parts = (part for text in sorted(found) for part in (text, encoded(found[text])))
    version = entry_key("" if before is None else before.version, *parts)
    earlier = no_choices if before is None else before.find
    known = nothing_measured if before is None else before.measured
    return Tunings(
        version, lambda text: found.get(text) or earlier(text), lambda text: measured.get(text) or known(text)
    )


def keep_tunings(
    store: ObjectCache, target: str, found: Mapping[str, Choices], measured: Mapping[str, Measured]
) -> None:
    """Stores tuned schedules for later compilations, in this process and in others.

    The version is written last, so that a process that reads it finds all its schedules.
    """
    for text, choices in found.items():
        store.put(step_key(text, target), encoded(choices).encode())
    for text, ticks in measured.items():
        entries = [[encoded(choices), count] for choices, count in ticks.items()]
        store.put(measured_key(text, target), json.dumps(entries).encode())
    store.put(version_key(target), os.urandom(16).hex().encode())


def step_key(text: str, target: str) -> str:
    """The key of the tuned schedules of a nest or group."""
    return entry_key("tuned step", text, *environment(target))


def measured_key(text: str, target: str) -> str:
    """The key of what tuning has measured of a nest or group."""
    return entry_key("measured step", text, *environment(target))


def version_key(target: str) -> str:
    """The key of the version of all tuned schedules."""
    return entry_key("version of tunings", *environment(target))


def environment(target: str) -> tuple[str, ...]:
    """The target, the processor that they ran on, and the compiler that tuned schedules are for."""
    return target, str(host()), VERSION


def encoded(choices: Choices) -> str:
    """Schedules and packed panels as JSON; null where a nest is left to the cost model."""
    return json.dumps([None if c is None else [schedule_text(c.schedule), c.packed] for c in choices])


def decoded(text: str) -> Choices:
    """The inverse of `encoded`."""
    return tuple(
        None if choice is None else Choice(parsed_schedule(choice[0]), tuple(choice[1]))
        for choice in json.loads(text)
    )


def parsed_schedule(text: str) -> Schedule:
    return parse_schedule(Parser(new_context(), text))
