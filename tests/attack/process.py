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
MEMORY = 12 << 30  # bytes of address space, so that a command which asks for more fails before the machine does
numbers = itertools.count()
unfinished = []  # the runs that nobody has waited for yet


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


def processes(is_wanted):
    """Returns {pid: environment} of the processes that have a variable for which is_wanted() is true."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        variables = read(f"/proc/{name}/environ").split(b"\0")
        if any(map(is_wanted, variables)):
            found[int(name)] = variables
    return found


def prepare(memory):
    """Limits the memory of the new process, and restores signals that a shell ignores in its background jobs."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def surroundings():
    """Returns the environment of every command: this process's, without the variables of another job and of other
    plugins. A name server that does not answer delays a command by one second."""
    foreign = ("WEFT_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_", "SLURM_", "OMPI_", "PMIX_",
               "TORCH_", "GLOO_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**own, "OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}


class Run:
    """A running command. A variable of their environment marks all processes that it starts, so that they are found
    even if their parent has ended."""

    def __init__(self, words, environment=None, cwd=None, stdin=os.devnull, memory=MEMORY):
        self.words = [str(word) for word in words]
        self.own = {key: str(value) for key, value in (environment or {}).items()}
        self.mark = f"{os.getpid()}-{next(numbers)}"
        self.files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        self.begin = time.monotonic()
        self.process = None
        unfinished.append(self)
        with open(stdin, "rb") as given:
            self.process = subprocess.Popen(
                self.words, stdin=given, stdout=self.files[0], stderr=self.files[1], cwd=cwd,
                env={**surroundings(), **self.own, MARK: self.mark}, start_new_session=True,
                preexec_fn=lambda: prepare(memory))

    def descendants(self):
        """Returns {pid: environment} of all processes of this command, itself included."""
        return processes(f"{MARK}={self.mark}".encode().__eq__)

    def rank(self, number):
        """Returns the process of a rank, without the processes that the rank has started."""
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
        """Waits at most `limit` seconds for the command, then at most `grace` seconds for the processes that it has
        started, and kills those that are left."""
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
        self.kill()
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Outcome(self.words, self.own, self.process.returncode, texts[0], texts[1], seconds, hung,
                       [] if hung else lines)

    def kill(self):
        """Kills all processes of this command, even stopped ones, and waits for their end."""
        while left := self.descendants():
            for pid in left:
                self.signal(pid, signal.SIGKILL)
            if self.process is not None and not self.ended():
                self.process.wait()
            time.sleep(0.02)
        unfinished.remove(self)


def kill_unfinished():
    """Kills the commands whose end nobody has waited for, because a case failed or was interrupted."""
    for run in list(unfinished):
        run.kill()
