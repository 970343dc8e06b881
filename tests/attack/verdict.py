"""What is bad about how a command ended."""
import os
import re
import signal

MOST_LINES = 12  # of an error, without the last lines of a rank that `weft` repeats below it
FOREIGN = re.compile(
    r"std::|\bc10\b|c10d|Exception raised from|frame #\d|terminate called|what\(\)|basic_string|bad_alloc|"
    r"\[json\.exception|nlohmann|vector::_M|\.[ch]pp:\d+|Segmentation fault|AddressSanitizer|enforce fail|"
    r"\bsto[id]\b|INTERNAL ASSERT|_ZN\w+")
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}
LAST_LINES = re.compile(r"^ {6}(last lines of rank \d+:|\| .*)$")
REPEATED = re.compile(r"(.)\1{99,}")  # a long value of the case's own
STAGED = re.compile(r"\.saving-")


def message_of(error):
    """Weft's own message: from its first line on, without what a rank had printed before."""
    lines = error.splitlines()
    for begin, line in enumerate(lines):
        if re.match(r"weft: ", line):
            return [text for text in lines[begin:] if not LAST_LINES.match(text)]
    return []


def staged_in(folder):
    """Folders and files that a save makes and must not leave."""
    return [os.path.join(place, name) for place, folders, files in os.walk(folder) for name in folders + files
            if STAGED.search(name)]


def crash(outcome):
    """The signal by which the command or one of its ranks died of its own doing, or None."""
    if -outcome.code in CRASHES:
        return signal.Signals(-outcome.code).name
    if outcome.code - 128 in CRASHES:
        return signal.Signals(outcome.code - 128).name
    names = "|".join(s.name for s in CRASHES)
    found = re.search(rf"was killed by signal \d+ \(({names})\)", outcome.error)
    return found[1] if found else None


def faults(outcome, may_fail=True, codes=None):
    """Sentences about everything that is bad. `codes`: the exit codes that are right; otherwise 0, and where
    it may fail 1 and 2."""
    bad = []
    died = crash(outcome)
    if outcome.hung:
        bad.append(f"still running after {outcome.seconds:.0f} s")
    elif died:
        bad.append(f"died by {died}")
    elif outcome.code not in (codes if codes is not None else (0, 1, 2) if may_fail else (0,)):
        bad.append(f"ended with {outcome.code}")
    if outcome.orphans:
        bad.append(f"{len(outcome.orphans)} orphans: {outcome.orphans[0][:80]}")
    foreign = FOREIGN.search(outcome.error)
    if foreign and not outcome.hung:
        bad.append(f"speaks of \"{foreign[0]}\"")
    message = message_of(outcome.error)
    if outcome.code in (1, 2) and not outcome.hung:
        if not message:
            bad.append("failed without a message of weft's")
        elif len(message) > MOST_LINES:
            bad.append(f"an error of {len(message)} lines")
        longest = max((len(REPEATED.sub("", line)) for line in message), default=0)
        if longest > 1500:
            bad.append(f"an error with a line of {longest} characters")
    return bad


def prove():
    """Each fault is found in an outcome that has it, and none in those that have none."""
    from process import Outcome

    def outcome(code=1, error="weft: train: config.json: n_head is 0, must be at least 1\n", hung=False, orphans=()):
        return Outcome(["weft"], {}, code, "", error, 1.0, hung, list(orphans))

    ranks = "weft: train: rank 0: no such file\n      last lines of rank 0:\n" + "      | step\n" * 20
    cases = [(outcome(), None), (outcome(0, "step 1"), None), (outcome(1, ranks), None),
             (outcome(-11), "SIGSEGV"), (outcome(134), "SIGABRT"), (outcome(0, hung=True), "still running"),
             (outcome(1, "weft: train: rank 1 was killed by signal 7 (SIGBUS)\n"), "SIGBUS"),
             (outcome(orphans=["weft train"]), "orphans"), (outcome(3), "ended with 3"),
             (outcome(error="Traceback"), "without a message"),
             (outcome(error="weft: a\n" + "      b\n" * 12), "13 lines"),
             (outcome(error="weft: " + "xy" * 1000), "characters"),
             (outcome(error="weft: train: [enforce fail at alloc_cpu.cpp:124]"), "enforce fail"),
             (outcome(error="weft: train: std::bad_alloc"), "std::"),
             (outcome(error="weft: train: connection closed\nException raised from run\n"), "Exception raised from")]
    wrong = 0
    for case, expected in cases:
        found = faults(case)
        if bool(found) != (expected is not None) or (expected and not any(expected in text for text in found)):
            print(f"{case.code} {case.error!r}: found {found}, expected {expected}")
            wrong += 1
    print(f"{len(cases) - wrong} of {len(cases)} outcomes are judged rightly")
    return wrong == 0
