"""What the comparisons of this folder share: runs that take turns, and that may fail."""
import json, os, pathlib, subprocess


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


def json_lines(command, timeout, **environment):
    """Runs a command, and returns the objects of JSON that it prints, one a line."""
    environment = dict(os.environ, TRANSFORMERS_VERBOSITY="error", **environment)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"ran longer than {timeout} s") from None
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise Failed(f"exit code {done.returncode}: {last_line(done.stderr).replace('|', '/')}")
    return lines


def training_step_of(parser, build):
    """The program training_step of a build folder. Ends the command if there is none."""
    program = pathlib.Path(build) / "tests/benchmarks/training_step"
    if not os.access(program, os.X_OK):
        parser.error(f"there is no program {program}; give --build a folder that was configured with -DWEFT_BENCHMARKS=ON")
    return program
