"""Fine-tunes a pretrained sentence encoder to classify docstrings, with Weft and with the Trainer of transformers, in turn.

  python tests/benchmarks/finetune_minilm.py --weft build/release/bin/weft [--folder FOLDER] [--steps 160] [--seeds 5] [--rounds 3]

Model and data are those of samples/text_classifier. Both start from the same head, read the rows in the order of the file, pad a batch of
8 to its longest text, and run AdamW at 5e-5 that falls linearly to 0, clipped to norm 1, in one thread. Three questions:

  losses    Without dropout: the largest difference of a step's loss.
  accuracy  With dropout 0.1: the mean accuracy on the held-out rows, of heads and dropout of several seeds.
  speed     With dropout 0.1: steps a second. Wall time is the median step of the best round. CPU time is that of whole runs of all and of
            a quarter of the steps, whose difference has no start in it, and hardly depends on what else the machine does.

FOLDER keeps model and data for the next time. transformers needs PyPI's accelerate for its Trainer.
"""
import argparse, json, os, pathlib, resource, statistics, subprocess, sys, tempfile

from in_turn import json_lines

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = HERE.parents[1] / "samples/text_classifier"
LENGTH, BATCH, RATE = 128, 8, 5e-5


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def make_model(folder, seed, dropout):
    """A model folder with a new head, from which both begin."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed

    torch.set_num_threads(1)
    set_seed(seed)
    names = sorted({row["label"] for part in ("train", "test") for row in rows_of(folder / f"docstrings/{part}.jsonl")})
    model = AutoModelForSequenceClassification.from_pretrained(
        folder / "minilm", num_labels=len(names), id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)}, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    made = folder / f"model-{seed}-{dropout}"
    model.save_pretrained(made)
    AutoTokenizer.from_pretrained(folder / "minilm").save_pretrained(made)
    return made


def train_transformers(folder, model, seed, steps):
    """Prints the losses, the seconds of each step and the accuracy of a run of transformers' Trainer, as JSON."""
    import time

    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, PrinterCallback, \
        Trainer, TrainingArguments, set_seed

    torch.set_num_threads(1)
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model)
    net = AutoModelForSequenceClassification.from_pretrained(model)

    def samples(part):
        return [tokenizer(row["text"], truncation=True, max_length=LENGTH) | {"labels": net.config.label2id[row["label"]]}
                for row in rows_of(folder / f"docstrings/{part}.jsonl")]

    losses, ends = [], []

    class InOrder(Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *arguments, **named):
            loss = super().compute_loss(*arguments, **named)
            if self.model.training:
                losses.append((loss[0] if isinstance(loss, tuple) else loss).item())
            return loss

        def training_step(self, *arguments, **named):
            ends.append(time.perf_counter())
            return super().training_step(*arguments, **named)

    with tempfile.TemporaryDirectory() as output:
        arguments = TrainingArguments(output, max_steps=steps, per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH,
                                      learning_rate=RATE, lr_scheduler_type="linear", weight_decay=0.0, max_grad_norm=1.0,
                                      save_strategy="no", report_to="none",
                                      disable_tqdm=True, use_cpu=True, logging_strategy="no", seed=seed)
        trainer = InOrder(net, arguments, train_dataset=samples("train"),
                          data_collator=DataCollatorWithPadding(tokenizer))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        seconds = [end - begin for begin, end in zip(ends, ends[1:])]
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            trainer.training_step(net, next(iter(trainer.get_train_dataloader())))
        times = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
        products = sum(times.get(name, 0) for name in ("aten::mm", "aten::addmm", "aten::bmm")) / sum(times.values())
        test = samples("test")
        predicted = trainer.predict(test).predictions.argmax(-1)
    accuracy = sum(int(p) == s["labels"] for p, s in zip(predicted, test)) / len(test)
    print(json.dumps(dict(losses=losses[:steps], seconds=seconds, products=products, accuracy=accuracy)))


def run_transformers(a, model, seed, steps):
    command = [sys.executable, __file__, "--folder", str(a.folder), "--train", str(model), str(seed), str(steps)]
    return json_lines(command, a.timeout, OMP_NUM_THREADS="1")[-1]


def run_weft(a, model, seed, steps):
    with tempfile.TemporaryDirectory() as output:
        metrics, out = pathlib.Path(output) / "metrics.jsonl", pathlib.Path(output) / "out"
        command = [a.weft, "train", "--model", str(model), "--data", str(a.folder / "docstrings/train.jsonl"), "--no-shuffle",
                   "--strategy", "none", "--device", "cpu", "--sequence-length", str(LENGTH), "--batch-size", str(BATCH),
                   "--steps", str(steps), "--lr", str(RATE), "--lr-scheduler", "linear_warmup", "--warmup-steps", "0",
                   "--weight-decay", "0", "--max-grad-norm", "1", "--seed", str(seed),
                   "--metrics", str(metrics), "--evaluation-data", str(a.folder / "docstrings/test.jsonl"), "--evaluate-every", str(steps)]
        json_lines(["sh", "-c", '"$@" >&2 && echo "{}"', "sh", *command], a.timeout, OMP_NUM_THREADS="1")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return dict(losses=[line["loss"] for line in lines], seconds=[line["step_seconds"] for line in lines],
                accuracy=lines[-1]["evaluation"]["accuracy"])


def cpu_seconds(call):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weft", default="build/release/bin/weft")
    p.add_argument("--folder", type=pathlib.Path)
    p.add_argument("--questions", nargs="+", default=["losses", "accuracy", "speed"])
    p.add_argument("--steps", type=int, default=160)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--timeout", type=float, default=3600, help="seconds of one run")
    p.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.train:
        return train_transformers(a.folder, a.train[0], int(a.train[1]), int(a.train[2]))
    with tempfile.TemporaryDirectory() as temporary:
        a.folder = a.folder or pathlib.Path(temporary)
        if not (a.folder / "docstrings").exists():
            a.folder.mkdir(parents=True, exist_ok=True)
            subprocess.run([SAMPLE / "get_minilm", a.folder / "minilm"], check=True)
            subprocess.run([SAMPLE / "make_docstrings", a.folder / "docstrings"], check=True)
        if "losses" in a.questions:
            model = make_model(a.folder, 1, 0.0)
            weft, other = run_weft(a, model, 1, a.steps), run_transformers(a, model, 1, a.steps)
            largest = max(abs(x - y) for x, y in zip(weft["losses"], other["losses"], strict=True))
            print(f"losses of {a.steps} steps: from {weft['losses'][0]:.4f} to {weft['losses'][-1]:.4f}, largest difference {largest:.2g}; "
                  f"accuracy {weft['accuracy']:.4f}, transformers {other['accuracy']:.4f}", flush=True)
        if "accuracy" in a.questions:
            found = {run_weft: [], run_transformers: []}
            for seed in range(1, a.seeds + 1):
                model = make_model(a.folder, seed, 0.1)
                for run, values in found.items():
                    values.append(100 * run(a, model, seed, a.steps)["accuracy"])
            for run, values in found.items():
                print(f"accuracy of {a.seeds} seeds, {run.__name__[4:]}: mean {statistics.mean(values):.2f} %, "
                      + ", ".join(f"{value:.2f}" for value in values), flush=True)
        if "speed" in a.questions:
            model, few = make_model(a.folder, 1, 0.1), a.steps // 4
            wall, cpu = {run_weft: [], run_transformers: []}, {run_weft: [], run_transformers: []}
            for _ in range(a.rounds):
                for run in wall:
                    seconds, result = cpu_seconds(lambda: run(a, model, 1, a.steps))
                    start, _ = cpu_seconds(lambda: run(a, model, 1, few))
                    wall[run].append(statistics.median(result["seconds"]))
                    share = result.get("products")
                    cpu[run].append((a.steps - few) / (seconds - start))
            for run in wall:
                print(f"steps a second, {run.__name__[4:]}: {1 / min(wall[run]):.2f} by wall time, {max(cpu[run]):.2f} by CPU time")
            print(f"matrix products are {100 * share:.0f} % of a forward and backward of transformers")
            print(f"Weft is {min(wall[run_transformers]) / min(wall[run_weft]):.2f} times as fast by wall time, "
                  f"{max(cpu[run_weft]) / max(cpu[run_transformers]):.2f} by CPU time")


if __name__ == "__main__":
    main()
