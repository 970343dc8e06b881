"""Training steps on documents of 100 to 400 tokens: packed, with attention inside documents and across them, and padded, in turn.

  python tests/benchmarks/packed_documents.py --build build/release [--models llama gpt2] [--length 2048] [--rounds 3] [--steps 6]

Each model is MODEL_6x384.json of this folder with a vocabulary of 256: 6 layers of width 384, fp32, fused AdamW, one rank of one
thread. A packed sample has LENGTH tokens, and a step one sample. A padded step has as many documents as fill such a sample on average, each
in a row of its own, of LENGTH tokens or of the longest document. Tokens that are padding do not count. Rates are the best step of all
rounds after two to warm up, of the padded runs with the mean number of tokens of a step.
"""
import argparse, json, pathlib, random, tempfile

from in_turn import in_turn, json_lines

HERE = pathlib.Path(__file__).resolve().parent
SHORTEST, LONGEST, WARM_UP = 100, 400, 2


def config_of(model, length, folder):
    config = json.loads((HERE / f"{model}_6x384.json").read_text())
    config["vocab_size"] = 256
    config["n_positions" if model == "gpt2" else "max_position_embeddings"] = length
    path = folder / f"{model}.json"
    path.write_text(json.dumps(config))
    return path


def documents(folder, count=4000):
    drawn = random.Random(1)
    lengths = [drawn.randint(SHORTEST, LONGEST) for _ in range(count)]
    letters = lambda length: "".join(drawn.choices("abcdefghijklmnopqrstuvwxyz ", k=length))
    path = folder / "documents.jsonl"
    path.write_text("".join(json.dumps(dict(text=letters(length))) + "\n" for length in lengths))
    return path, sum(lengths) / count


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--models", nargs="+", default=["llama", "gpt2"])
    p.add_argument("--length", type=int, default=2048)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--timeout", type=float, default=1800, help="seconds of one run")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data, mean = documents(folder)
        rows = round(a.length / mean)
        # A step's samples, their length, the tokens that count, and flags.
        runs = {"packed, attention inside documents": (1, a.length, a.length, []),
                "packed, attention across the sample": (1, a.length, a.length, ["--attention", "sample"]),
                f"padding to {a.length}": (rows, a.length, rows * mean, ["--packing", "none"]),
                f"padding to {LONGEST}": (rows, LONGEST, rows * mean, ["--packing", "none"])}
        print("| model | samples | tokens/s | times the first |\n|---|---|---|---|")
        for model in a.models:
            config, metrics = config_of(model, a.length, folder), folder / "metrics.jsonl"

            def step(batch, length, _, more):
                command = [str(pathlib.Path(a.build) / "bin/weft"), "train", "--model", str(config), "--data", str(data), "--bytes",
                           "--strategy", "none", "--sequence-length", str(length), "--batch-size", str(batch), "--steps",
                           str(a.steps), "--metrics", str(metrics), *more]
                json_lines(["sh", "-c", '"$@" >&2 && echo "{}"', "sh", *command], a.timeout, OMP_NUM_THREADS="1")
                return min(json.loads(line)["step_seconds"] for line in metrics.read_text().splitlines()[WARM_UP:])

            found = in_turn({name: lambda run=run: step(*run) for name, run in runs.items()}, a.rounds)
            rates = {name: runs[name][2] / min(times) for name, times in found.items()}
            first = next(iter(rates.values()))
            for name, rate in rates.items():
                print(f"| {model} | {name} | {rate:.0f} | {rate / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
