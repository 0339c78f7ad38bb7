#!/usr/bin/python3
"""One test of rdma-core's pyverbs suite, in a process of its own.

    one_test.py unpack FROM TO            the suite as files that Python can load, without the tests of vendors
    one_test.py list SUITE                the name of each test, a line each
    one_test.py run SUITE TEST OUT SECONDS DEVICE
                                          runs one; its outcome as JSON into the file OUT

A process whose test has not ended after SECONDS says on standard error where each of its threads stands.
"""

import faulthandler
import gzip
import importlib
import json
import os
import pathlib
import random
import sys
import types
import unittest

# Tests of what one vendor's hardware has, by how their file begins.
VENDORS = ("test_mlx5", "test_efa", "test_cuda")


def unpack(source, target):
    """Debian packs the larger files of a documentation folder."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.name.startswith(VENDORS) or not path.name.endswith((".py", ".py.gz")):
            continue
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        (target / path.name.removesuffix(".gz")).write_bytes(data)


def open_suite(suite, words):
    """The package `tests`, of which each module is loaded when it is asked for, and its command line."""
    sys.path.insert(0, str(suite))
    package = types.ModuleType("tests")
    package.__path__ = [str(suite)]
    sys.modules["tests"] = package
    sys.argv[1:] = words
    importlib.import_module("args_parser").parser.parse_args()


def names(suite):
    """Each test once: modules import each other's classes."""

    def flat(tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                yield from flat(test)
            else:
                yield test.id()

    open_suite(suite, [])
    found = []
    for path in sorted(suite.glob("test_*.py")):
        module = importlib.import_module("tests." + path.stem)
        found += flat(unittest.defaultTestLoader.loadTestsFromModule(module))
    return [name.removeprefix("tests.") for name in dict.fromkeys(found)]


def where(trace):
    """The last line of a trace, and the innermost place in the suite that it names."""
    lines = trace.strip().split("\n")
    places = [line.strip() for line in lines if line.startswith("  File") and "/test" in line]
    place = places[-1].replace('File "', "").replace('"', "") if places else ""
    place = os.path.basename(place.split(",")[0]) + ":" + ",".join(place.split(",")[1:]) if place else ""
    return lines[-1] + (" @ " + place if place else "")


def run(suite, name, device):
    """The outcome of one test and the reason for it."""
    # The same choices in each run: a failure must come again.
    random.seed(name)
    open_suite(suite, ["--dev", device])
    test = unittest.defaultTestLoader.loadTestsFromName("tests." + name)
    result = unittest.TestResult()
    test.run(result)
    for kind, faults in (("error", result.errors), ("failure", result.failures)):
        for _, trace in faults:
            print(trace, file=sys.stderr, flush=True)
            return kind, where(trace)
    if result.unexpectedSuccesses:
        return "failure", "passes, and the suite expects that it does not"
    if result.skipped:
        return "skip", result.skipped[0][1]
    if result.testsRun != 1:
        return "error", "there is no such test"
    return "pass", ""


def main(words):
    task, suite, rest = words[0], pathlib.Path(words[1]), words[2:]
    if task == "unpack":
        unpack(suite, pathlib.Path(rest[0]))
    elif task == "list":
        print("\n".join(names(suite)))
    elif task == "run":
        name, out, seconds, device = rest
        faulthandler.enable()
        faulthandler.dump_traceback_later(float(seconds))
        outcome, reason = run(suite, name, device)
        pathlib.Path(out).write_text(json.dumps({"outcome": outcome, "reason": " ".join(reason.split())}))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
