"""Commands that are watched: with a limit of time and memory, and with everything that they start."""
import dataclasses
import itertools
import os
import resource
import shlex
import signal
import subprocess
import tempfile
import time

MARK = "WEFT_ATTACK_MARK"
MEMORY = 12 << 30  # of addresses: a case that asks for more gets none, and the machine goes on
numbers = itertools.count()


@dataclasses.dataclass
class Outcome:
    words: list
    environment: dict  # beyond this process's
    code: int  # negative: died by that signal
    output: str
    error: str
    seconds: float
    hung: bool
    orphans: list  # command lines of what was still running

    def command(self):
        before = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.environment.items())]
        return " ".join(before + [shlex.join(self.words)])


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # it has ended


def prepare():
    """In the new process: limits its memory, and takes signals that a shell in the background had it ignore."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def surroundings():
    """The environment of every command: this process's, without what belongs to another job or other plugins. A
    name server that does not answer costs a second."""
    foreign = ("WEFT_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_", "SLURM_", "OMPI_", "PMIX_",
               "TORCH_", "GLOO_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**own, "OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}


class Run:
    """A running command. Its descendants are known by a variable of their environment, wherever they went."""

    def __init__(self, words, environment=None, cwd=None):
        self.words = [str(word) for word in words]
        self.own = {key: str(value) for key, value in (environment or {}).items()}
        self.mark = f"{os.getpid()}-{next(numbers)}"
        self.files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1], cwd=cwd,
            env={**surroundings(), **self.own, MARK: self.mark}, start_new_session=True,
            preexec_fn=prepare)

    def descendants(self):
        """{pid: environment} of all processes of this command, itself included."""
        wanted = f"{MARK}={self.mark}".encode()
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            variables = read(f"/proc/{name}/environ").split(b"\0")
            if wanted in variables:
                found[int(name)] = variables
        return found

    def rank(self, number):
        """The process of a rank: the one that `weft` started itself."""
        wanted = f"RANK={number}".encode()
        pids = [pid for pid, variables in self.descendants().items() if wanted in variables]
        return min(pids, default=None)

    def signal(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def ended(self):
        return self.process.poll() is not None

    def finish(self, limit, grace=10.0):
        """Waits at most `limit` seconds for the end, and `grace` for that of all that the command started."""
        hung = False
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            hung = True
        seconds = time.monotonic() - self.begin
        until = time.monotonic() + (0 if hung else grace)
        left = self.descendants()
        while left and not hung and time.monotonic() < until:
            time.sleep(0.05)
            left = self.descendants()
        lines = [read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip() for pid in left]
        while left:  # a stopped process takes SIGKILL too
            for pid in left:
                self.signal(pid, signal.SIGKILL)
            if not self.ended():
                self.process.wait()
            time.sleep(0.02)
            left = self.descendants()
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Outcome(self.words, self.own, self.process.returncode, texts[0], texts[1], seconds, hung,
                       [] if hung else lines)
