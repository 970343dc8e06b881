"""Kind "links": something else has the name of a file that Weft writes or locks. What a link leads to stays as it was."""
import glob
import os

import mutate
from case import metrics

PRECIOUS = b"somebody's only copy\n" * 20
FOREIGN = 60000  # a user who is not this one

# What a save to `out` writes or locks: beside the folder, and in it.
BESIDE = [".out.saving.lock", ".out.saving.lock", ".out.saving.lock", ".out.saving-0badf00d", ".out.saving-0badf00d.old"]
INSIDE = [".step-1.saving.lock", ".step-1.saving-0badf00d", ".step-1.saving-0badf00d.old", ".weft-save.lock",
          ".model.safetensors.partial", "config.json", "generation_config.json", "model.safetensors", "training_state",
          "step-1"]
CACHE = ["", "{ids}", "{ids}.lock", "{ids}.lock"]  # in .weft_cache


class Precious:
    """Files outside of what a command is to write, which no command may change."""

    def __init__(self, case):
        self.folder = case.path("precious")
        self.file = os.path.join(self.folder, "thesis")
        os.makedirs(os.path.join(self.folder, "inner"))
        for name in ("thesis", "inner/notes"):
            mutate.write(os.path.join(self.folder, name), PRECIOUS)

    def faults(self):
        names = sorted(os.path.relpath(os.path.join(place, name), self.folder)
                       for place, _, names in os.walk(self.folder) for name in names)
        bad = [f"precious/{name} is new" for name in names if name not in ("thesis", "inner/notes")]
        for name in ("thesis", "inner/notes"):
            path = os.path.join(self.folder, name)
            if not os.path.isfile(path) or mutate.read(path) != PRECIOUS:
                bad.append(f"precious/{name} was changed")
        return bad


def obstacles():
    known = ["link to a file", "link to a folder", "link to nothing", "second name of a file", "pipe", "folder", "junk"]
    return known + (["another user's file"] if os.geteuid() == 0 else [])


def put(what, path, precious):
    """Puts an obstacle at `path`."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, path + ".before")
    elif os.path.lexists(path):
        os.remove(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if what == "link to a file":
        os.symlink(precious.file, path)
    elif what == "link to a folder":
        os.symlink(precious.folder, path)
    elif what == "link to nothing":
        os.symlink(os.path.join(precious.folder, "nothing"), path)
    elif what in ("second name of a file", "another user's file"):
        os.link(precious.file, path)
        if what == "another user's file":
            os.chown(path, FOREIGN, FOREIGN)
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        os.mkdir(path)
        mutate.write(os.path.join(path, "note"), b"note")
    else:
        mutate.write(path, b"junk\0\xff")


def run(case):
    [run_save, run_save, run_cache, run_cache, run_convert][case.random.randrange(5)](case)


def judge_end(case, outcome, precious, saved):
    case.judge(precious.faults())
    if outcome.code == 0:
        case.expect(all(os.path.isfile(os.path.join(saved, name)) and not os.path.islink(os.path.join(saved, name))
                        for name in ("config.json", "model.safetensors")), "it ended well and saved no model")


def run_save(case):
    rng, precious, out = case.random, Precious(case), case.path("out")
    what = rng.choice(obstacles())
    name = rng.choice(BESIDE + ["out/" + name for name in INSIDE] + ["out"])
    again = name.startswith("out/") or rng.random() < 0.3
    if again and name != "out":
        case.train("--strategy", "none", "--steps", "1", "--output", out, may_fail=False)
    put(what, case.path(name), precious)
    every = rng.choice([[], ["--save-every", "1"]])
    case.what = f"{what} at {name}, --output {' '.join(every)}{' again' if again else ''}"
    outcome = case.train("--strategy", "none", "--steps", "2", "--output", out, *every)
    judge_end(case, outcome, precious, out)


def run_convert(case):
    rng, precious = case.random, Precious(case)
    what = rng.choice(obstacles())
    name = rng.choice(["x.safetensors.lock", "x.safetensors.partial"] if (single := rng.random() < 0.5)
                      else ["x.saving.lock", "x.saving-0badf00d", "x.saving-0badf00d.old"])
    put(what, case.path("." + name), precious)
    case.what = f"{what} at .{name}, convert"
    target = case.path("x.safetensors" if single else "x")
    outcome = case.weft(["convert", case.bench.checkpoint(), target] + (["--weights-only"] if single else []))
    if single:
        case.judge(precious.faults())
        case.expect(outcome.code != 0 or os.path.isfile(target), "it ended well and wrote nothing")
    else:
        judge_end(case, outcome, precious, target)


def run_cache(case):
    rng, precious, data = case.random, Precious(case), case.path("d")
    os.makedirs(data)
    mutate.write(os.path.join(data, "a.txt"), mutate.read(case.bench.data))
    environment = {"XDG_CACHE_HOME": case.path("xdg")}
    words = ["--strategy", "none", "--steps", "2", "--packing", "documents", "--data", data]
    first = case.train(*words, "--metrics", case.path("first"), environment=environment, may_fail=False)
    if first.code != 0:
        return
    cache = os.path.join(data, ".weft_cache")
    ids = os.path.basename(glob.glob(os.path.join(cache, "*.ids"))[0])
    what, name = rng.choice(obstacles()), rng.choice(CACHE).format(ids=ids)
    if name.endswith(".lock"):
        os.remove(os.path.join(cache, ids))
    put(what, os.path.join(cache, name) if name else cache, precious)
    case.what = f"{what} at .weft_cache/{name}"
    case.train(*words, "--metrics", case.path("second"), environment=environment, may_fail=False)
    case.judge(precious.faults() if what != "link to a folder" or name else [])
    expected, got = metrics(case.path("first")), metrics(case.path("second"))
    case.expect([line["loss"] for line in expected.values()] == [line["loss"] for line in got.values()],
                "another loss with the same text")
