"""What the comparisons of this folder share: runs that take turns, and that may fail."""
import os, pathlib


class Failed(Exception):
    """A run that ended with an error or took too long."""


def in_turn(runs, rounds):
    """Calls each run once a round. Returns by its name what it returned in each round, or Failed as soon as it fails."""
    results = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            if isinstance(results[name], Failed):
                continue
            try:
                results[name].append(run())
            except Failed as error:
                results[name] = error
    return results


def last_line(text):
    return (text.strip() or "said nothing").splitlines()[-1]


def training_step_of(parser, build):
    """The program training_step of a build folder. Ends the command if there is none."""
    program = pathlib.Path(build) / "tests/benchmarks/training_step"
    if not os.access(program, os.X_OK):
        parser.error(f"there is no program {program}; give --build a folder that was configured with -DWEFT_BENCHMARKS=ON")
    return program
