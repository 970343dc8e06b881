"""Measures the cost of Booster itself: the processor time of a step beyond a hand-written loop of the same model.

  python3 tests/benchmarks/booster_cost.py --build build/release [--model gpt2_6x384] [--rounds 5] [--steps 2000]

Booster costs the same number of calls (units, parameters, hooks) per step whatever the size of the tensors. So the difference between
Booster and the loop (training_step booster, training_step loop) is measured on the same layers with tiny tensors, where it is not lost
in the noise of the matrix products, and compared with a step of the model with its full size, 4 samples of 256 tokens. Everything runs
on one rank of one thread; times are processor time. Needs a build with -DWEFT_BENCHMARKS=ON.
"""
import argparse, json, os, pathlib, statistics, subprocess, tempfile

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 2
TINY = {"gpt2": dict(n_embd=12, vocab_size=16, n_positions=4),
        "llama": dict(hidden_size=12, intermediate_size=16, vocab_size=16, max_position_embeddings=4)}


def processor_seconds(build, mode, config, batch, sequence, steps, strategy="none"):
    """The mean processor time of a step after the warm-up."""
    command = [f"{build}/tests/benchmarks/training_step", mode, config, str(batch), str(sequence), str(steps),
               json.dumps({"strategy": strategy})]
    out = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, text=True, check=True).stdout
    return statistics.mean(json.loads(out.splitlines()[-1])["processor_seconds"][WARM_UP:])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--model", default="gpt2_6x384")
    p.add_argument("--strategies", nargs="+", default=["none", "torch_ddp"])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=2000)
    a = p.parse_args()
    config = json.loads((HERE / f"{a.model}.json").read_text())
    tiny = dict(config, **TINY[config["model_type"]])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(tiny))
        runs = {"loop": [], **{strategy: [] for strategy in a.strategies}}
        for _ in range(a.rounds):
            for name, times in runs.items():
                mode = ("loop", "none") if name == "loop" else ("booster", name)
                times.append(processor_seconds(a.build, mode[0], path, 1, 4, a.steps, mode[1]))
    full = min(processor_seconds(a.build, "loop", HERE / f"{a.model}.json", 4, 256, 8) for _ in range(2))
    print(f"one step of the loop: {1e6 * min(runs['loop']):.0f} us with tiny tensors, {1e3 * full:.0f} ms with 4 samples of 256 tokens")
    print("| strategy | Booster beyond the loop, us per step | spread of the rounds, us | part of a step |")
    print("|---|---|---|---|")
    for strategy in a.strategies:
        costs = [1e6 * (ours - loop) for ours, loop in zip(runs[strategy], runs["loop"])]
        cost = statistics.median(costs)
        print(f"| {strategy} | {cost:.0f} | {min(costs):.0f} to {max(costs):.0f} | {100 * cost / (1e6 * full):.3f} % |")


if __name__ == "__main__":
    main()
