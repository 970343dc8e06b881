"""Kind "full": outputs onto a disk that is full, or beyond a limit of file sizes. What was there stays as it was, or the
command succeeds; a training that loses a record is saved and ends with 1."""
import ctypes
import json
import os
import shutil
import subprocess
import sys

import mutate
from case import LIMIT, metrics
from process import Run

PAGE = 4096
NO_ROOM = ("No space left on device", "File too large")
# Runs a command with a limit of file sizes. Python ignores the signal of that limit, and a program would inherit this.
LIMITED = ("import os,resource,signal,sys; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); limit=int(sys.argv[1]); "
           "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)); os.execv(sys.argv[2], sys.argv[2:])")
STAGED = (".saving-", ".partial", ".making-")
mounting = None  # whether small disks can be mounted; None: nobody has tried


def can_mount():
    """Gives this process and its children mounts of their own, which end with them, however they end."""
    global mounting
    if mounting is None:
        libc = ctypes.CDLL(None, use_errno=True)
        own = 0x20000  # CLONE_NEWNS
        mounting = (os.geteuid() == 0 and libc.unshare(own) == 0
                    and subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False).returncode == 0)
    return mounting


class Disk:
    """A folder with little room: a disk of its own or, where none can be mounted, a limit of file sizes."""

    def __init__(self, case, pages):
        self.case, self.path, self.limit = case, case.path("disk"), None
        self.pages = pages

    def __enter__(self):
        os.makedirs(self.path)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.pages * PAGE}", "tmpfs", self.path]
        self.mounted = can_mount() and subprocess.run(mount, capture_output=True, check=False).returncode == 0
        return self

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.path], check=False)

    def at(self, name):
        return os.path.join(self.path, name)

    def leave(self, pages):
        """Leaves room for so many pages."""
        self.room = pages * PAGE
        self.limit = max(1, pages) * PAGE  # what is said on stderr, into a file, must have room
        if not self.mounted:
            return
        with open(self.at("filler"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(PAGE))
            except OSError:
                file.truncate(max(0, os.fstat(file.fileno()).st_size - pages * PAGE))

    def run(self, words, stdin=os.devnull, stdout=None):
        """Runs `weft WORDS` with this little room; `stdout` is a path."""
        command = [self.case.bench.weft, *words]
        if not self.mounted:
            command = [sys.executable, "-c", LIMITED, str(self.limit), *command]
        if stdout:
            command = ["sh", "-c", 'in=$1 out=$2; shift 2; exec "$@" < "$in" > "$out"', "sh", stdin, stdout, *command]
        environment = {"XDG_CACHE_HOME": self.at("cache")}
        return self.case.ends(Run(command, environment, self.case.folder), LIMIT, codes={0, 1})

    def kept(self):
        return {os.path.relpath(path, self.path): mutate.read(path) for path in files_below(self.path)}


def files_below(folder):
    return [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name != "filler"]


def judge_failure(case, outcome):
    """A command that failed says why."""
    if outcome.code == 1:
        case.expect(any(text in outcome.error for text in NO_ROOM), "the error does not say that there is no room")


def expect_nothing_staged(case):
    left = [path for path in files_below(case.folder) if any(mark in path for mark in STAGED)]
    case.expect(not left, f"left {os.path.basename(left[0]) if left else ''} behind")


def output_of_stdout(case, disk):
    """What is printed into a file is all there, or the command fails."""
    bench, rng = case.bench, case.random
    model = bench.checkpoint()
    verb = rng.choice([["plan", "--model", bench.config, "--world-size", "2"], ["plugins", "list"],
                       ["plugins", "show", "gemini"], ["plugins", "list", "--json"], ["train", "--help"], ["--version"],
                       ["generate", "--model", model, "--prompt", "the ", "--greedy", "--max-new-tokens", "8",
                        "--num-samples", "4", "--json"],
                       ["evaluate", "--model", model, "--data", bench.data, "--sequence-length", "16", "--json"],
                       ["plugins", "digest", bench.data], ["plugins", "doctor"],
                       ["tokenizer", "encode", "--model", tokenizer(bench)]])
    stdin = bench.data if verb[0] == "tokenizer" else os.devnull
    case.what = f"{' '.join(verb)[:60]} into a full file"
    whole = disk.at("whole")
    outcome = case.ends(Run(["sh", "-c", 'in=$1 out=$2; shift 2; exec "$@" < "$in" > "$out"', "sh", stdin,
                             case.path("whole"), bench.weft, *verb], {}, case.folder), LIMIT, codes={0})
    size = os.path.getsize(case.path("whole"))
    disk.leave(rng.randint(0, size // PAGE + 1))
    outcome = disk.run(verb, stdin, whole)
    judge_failure(case, outcome)
    written = os.path.getsize(whole) if os.path.exists(whole) else 0
    # The numbers of some verbs have other digits at each run, and the lengths are nearly the same.
    case.expect(outcome.code == 1 or written >= 0.9 * size, f"{written} of {size} bytes were written with exit code 0")


def tokenizer(bench):
    return bench.once("tokenizer", lambda path: bench.run("tokenizer", "train", "--data", bench.data, "--vocab-size", "270",
                                                          "--output", path) and path)


def record_of_training(case, disk):
    """A record that cannot be written ends, and the training is saved."""
    rng = case.random
    flag = rng.choice(["--metrics", "--tensorboard", "--trace"] if disk.mounted else ["--metrics", "--trace"])
    path = disk.at("record") if disk.mounted else "/dev/full"
    before = None
    if flag == "--trace" and disk.mounted:
        before = b"an earlier trace"
        mutate.write(path, before)
    disk.leave(rng.randint(1, 2))
    ranks = rng.choice([["--strategy", "none"], ["-n", "2", "--strategy", "torch_ddp"]])
    words = case.bench.train(*ranks, flag, path, "--steps", "60", "--output", case.path("out"))
    case.what = f"{flag} {' '.join(ranks)}"
    disk.limit = 1 << 30  # the save has room
    outcome = disk.run(words)
    case.expect(os.path.exists(case.path("out/config.json")), "the training was not saved")
    judge_failure(case, outcome)
    case.expect(outcome.code == 0 or outcome.error.count(NO_ROOM[0]) == 1, "the reason is not said once")
    case.expect(outcome.code == 0 or f"{flag} {path} could not be written" in outcome.error, f"{flag} is not named")
    if flag == "--metrics" and disk.mounted:
        text = mutate.read(path)
        case.expect(text.endswith(b"\n") or not text, "the last line of the metrics is not whole")
        case.expect(len(metrics(path)) == text.count(b"\n"), "a line of the metrics is broken")
        case.expect(outcome.code == 1 or len(metrics(path)) == 60, "metrics are missing, with exit code 0")
    if before is not None and outcome.code == 1:
        case.expect(mutate.read(path) == before, "the earlier trace is gone")
    if before is not None and outcome.code == 0:
        json.loads(mutate.read(path))


def replaced_output(case, disk):
    """What takes the place of something leaves that as it was, or is complete."""
    bench, rng = case.bench, case.random
    model = bench.checkpoint()
    name, words, prepare = rng.choice([
        ("save", bench.train("--strategy", "none", "--steps", "5", "--output", disk.at("out")),
         lambda: shutil.copytree(model, disk.at("out"))),
        ("save-every", bench.train("--strategy", "none", "--steps", "9", "--save-every", "2", "--output", disk.at("out")),
         lambda: shutil.copytree(model, disk.at("out"))),
        ("convert", ["convert", model, disk.at("out"), "--format", "pytorch"],
         lambda: shutil.copytree(model, disk.at("out"))),
        ("convert a file", ["convert", model, disk.at("x.safetensors"), "--weights-only"],
         lambda: shutil.copy(os.path.join(model, "model.safetensors"), disk.at("x.safetensors"))),
        ("forward", ["forward", "--model", model, "--inputs", bench.inputs, "--output", disk.at("y.safetensors")],
         lambda: shutil.copy(os.path.join(model, "model.safetensors"), disk.at("y.safetensors"))),
        ("tokenizer train", ["tokenizer", "train", "--data", bench.data, "--vocab-size", "320", "--output", disk.at("t")],
         lambda: shutil.copytree(tokenizer(bench), disk.at("t"))),
        ("picture", ["plan", "--model", bench.config, "--strategy", "hybrid_parallel", "-o", "pp_size=2", "-o",
                     "num_microbatches=32", "--batch-size", "32", "--picture", disk.at("s.svg")],
         lambda: mutate.write(disk.at("s.svg"), b"an earlier picture")),
        ("schedule", ["plan", "--model", bench.config, "--strategy", "hybrid_parallel", "-o", "pp_size=2", "-o",
                      "num_microbatches=32", "--batch-size", "32", "--schedule-file", disk.at("s.txt")],
         lambda: mutate.write(disk.at("s.txt"), b"an earlier schedule")),
        ("evaluate", ["evaluate", "--model", model, "--data", bench.data, "--sequence-length", "16", "--metrics",
                      disk.at("m.json")], lambda: mutate.write(disk.at("m.json"), b"earlier metrics"))])
    prepare()
    before = disk.kept()
    disk.leave(rng.randint(0, 6))
    case.what = f"{name}, room for {disk.room} bytes"
    outcome = disk.run(words)
    judge_failure(case, outcome)
    if outcome.code == 1 and name != "save-every":
        case.expect(disk.kept() == before, "what was there is another thing now, or something else is there too")
    elif outcome.code == 1:
        kept = disk.kept()
        case.expect(all(kept.get(path) == data for path, data in before.items()), "an earlier file is another one")
    else:
        case.expect(name == "save-every" or disk.kept() != before, "nothing was written")


def token_cache(case, disk):
    """Where the ids of text find no room, the training ends before its first step."""
    text = disk.at("text.txt")
    shutil.copy(case.bench.data, text)
    before = disk.kept()
    disk.leave(case.random.randint(0, 3))
    case.what = f"a token cache, room for {disk.room} bytes"
    outcome = disk.run(case.bench.train("--data", text, "--packing", "stream", "--strategy", "none", "--steps", "1"))
    judge_failure(case, outcome)
    case.expect(all(disk.kept().get(path) == data for path, data in before.items()), "the text is another one")


def run(case):
    kind = case.random.choice([output_of_stdout, output_of_stdout, record_of_training, replaced_output, replaced_output,
                               token_cache])
    with Disk(case, pages=64) as disk:
        kind(case, disk)
        expect_nothing_staged(case)


def prove():
    """A small disk is full where it should be, and its end leaves no mount."""
    import tempfile
    from types import SimpleNamespace
    with tempfile.TemporaryDirectory() as folder:
        with Disk(SimpleNamespace(path=lambda name: os.path.join(folder, name)), pages=8) as disk:
            mutate.write(disk.at("first"), bytes(PAGE))
            disk.leave(2)
            if disk.mounted:
                disk_has = os.statvfs(disk.path)
                right = disk_has.f_bavail * disk_has.f_bsize == 2 * PAGE and list(disk.kept()) == ["first"]
            else:
                right = disk.limit == 2 * PAGE
        right = right and not os.path.ismount(disk.path)
    print("a small disk has the room that it should have" if right else "a small disk has other room than it should have")
    return right
