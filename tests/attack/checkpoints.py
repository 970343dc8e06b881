"""Kind "checkpoint": a damaged file of a checkpoint. Resuming fails with a clear error, or goes on as it would."""
import os
import shutil

import mutate
from bench import SAVED
from case import metrics


def damage(case, folder):
    """Changes one file of the folder, and says what it did."""
    rng = case.random
    files = sorted(os.path.relpath(os.path.join(place, name), folder)
                   for place, _, names in os.walk(folder) for name in names)
    name = rng.choice(files)
    path = os.path.join(folder, name)
    how = rng.random()
    if how < 0.08:
        return f"{name}: {mutate.misplaced(rng, path)}"
    if how < 0.16:
        alike = [other for other in files if os.path.splitext(other)[1] == os.path.splitext(name)[1]]
        if len(alike) > 1:
            return mutate.exchanged(rng, folder, alike)
    data = mutate.read(path)
    if name.endswith(".safetensors"):
        # The fingerprint of the weights tells tensors that changed places. The optimizer's states have none.
        data, what = mutate.changed_safetensors(rng, data, not name.startswith("training_state" + os.sep))
    elif name.endswith(".json"):
        right, (data, what) = data, mutate.changed_json_text(rng, data)
        while os.path.basename(name) == "state.json" and mutate.is_another_position(right, data):
            data, what = mutate.changed_json_text(rng, right)
    else:  # an archive has checksums of everything in it
        change = rng.choice([mutate.truncated, mutate.flipped, mutate.spliced])
        data, what = change(rng, data), change.__name__
    mutate.write(path, data)
    return f"{name}: {what}"


def run(case):
    rng, bench = case.random, case.bench
    make, ranks = rng.choice([(bench.checkpoint, 1), (lambda: bench.checkpoint(2), 2), (bench.with_index, 1),
                              (bench.pickled, 1)])
    base = make()
    expected = bench.loss_after(base, ranks)
    folder = case.path("model")
    shutil.copytree(base, folder)
    case.what = damage(case, folder)
    case.train(*bench.strategy(ranks), "--steps", str(SAVED + 1), "--resume", folder, "--metrics", case.path("metrics"))
    if not case.refused():
        losses = [step["loss"] for step in metrics(case.path("metrics")).values()]
        case.expect(losses == [expected], f"goes on with a loss of {losses}, not {expected}")
    case.expect_nothing_staged()
    verb = rng.choice(["evaluate", "convert", "none"])
    if verb == "evaluate":
        case.weft(["evaluate", "--model", folder, "--data", bench.data, "--sequence-length", "16"])
    elif verb == "convert":
        case.weft(["convert", folder, case.path("converted")])
        made = os.path.exists(case.path("converted"))
        case.expect(made != case.refused(), f"convert made {'something' if made else 'nothing'}")
        case.expect_nothing_staged()
