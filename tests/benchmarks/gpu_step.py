"""Training steps in bf16 on one GPU beside Hugging Face's model on the same GPU.

  python tests/benchmarks/gpu_step.py --build build/release [--models gpt2_124m llama_1b] [--runs weft weft_autocast eager compiled ...]
      [--steps 12] [--batch N] [--profile FILE] [--timeout 300]

Batches are 16 samples of 1024 tokens for GPT-2 124M and 4 of 2048 for Llama 1B (the shapes of Llama 3.2 1B), or N samples; every token has a
label; fused AdamW; no dropout.

  weft            bf16 parameters, fp32 master weights and states (--precision bf16)
  weft_autocast   fp32 parameters, products in bf16 (--mixed-precision bf16)
  weft_graph      as weft, forward and backward as a CUDA graph (--enable-cuda-graph): for small batches
  eager, compiled                fp32 parameters under torch.autocast, and with torch.compile
  eager_bf16, compiled_bf16      bf16 parameters and states, without master weights
  products        the matrix products of a step alone, by torch.mm in bf16, with the vocabulary rounded up to a multiple of 64

Times are of a step, the mean after warm-up. Weft reads the loss of each step; PyTorch reads none. Memory is the largest sum of tensors on the GPU.
`fraction` is the time of the products over that of the step. --profile writes the time of each of Weft's kernels in two steps, and the pauses between them. Also
prints the rate of a copy on the GPU, reading and writing. Needs a Python with torch 2.11 and transformers, and a build with
-DWEFT_BENCHMARKS=ON and the device cuda.
"""
import argparse, json, pathlib, statistics, sys, time

from in_turn import Failed, json_lines, training_step_of

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = {"gpt2_124m": (16, 1024), "llama_1b": (4, 2048)}
BOOSTERS = {"weft": {"precision": "bf16"}, "weft_autocast": {"mixed_precision": "bf16"},
            "weft_graph": {"precision": "bf16", "enable_cuda_graph": True}}
PEERS = ["eager", "compiled", "eager_bf16", "compiled_bf16"]
RUNS = [*BOOSTERS, *PEERS, "products"]
WARM_UP = 4


def config_of(model):
    return HERE / f"{model}.json"


def train(run, model, steps):
    """Trains Hugging Face's model. Returns seconds of a step, MiB at the peak and the last loss."""
    import torch, transformers
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(config_of(model))
    config.use_cache = False
    half = run.endswith("_bf16")
    with torch.device("cuda"):
        made = getattr(transformers, config.architectures[0])(config).train()
        ids = torch.randint(0, config.vocab_size, SHAPES[model])
    if half:
        made = made.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    forward = torch.compile(made) if run.startswith("compiled") else made

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=not half):
            loss = forward(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    for _ in range(steps - WARM_UP):
        loss = step()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / (steps - WARM_UP)
    return dict(seconds=seconds, mib=torch.cuda.max_memory_allocated() / 2**20, loss=loss.item())


def products_of(model):
    """The linear layers of a model: inputs, outputs, how many."""
    c = json.loads(config_of(model).read_text())
    if c["model_type"] == "gpt2":
        n = c["n_embd"]
        return [(n, 3 * n, c["n_layer"]), (n, n, c["n_layer"]), (n, 4 * n, c["n_layer"]), (4 * n, n, c["n_layer"]), (n, c["vocab_size"], 1)]
    n, layers = c["hidden_size"], c["num_hidden_layers"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    return [(n, n, 2 * layers), (n, kv, 2 * layers), (n, c["intermediate_size"], 2 * layers), (c["intermediate_size"], n, layers),
            (n, c["vocab_size"], 1)]


def time_products(model):
    """The seconds of the products of a step, and of a copy."""
    import torch

    def seconds(work, times=10):
        for _ in range(3):
            work()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(times):
            work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1000 / times

    batch, length = SHAPES[model]
    total = flops = 0
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    for inputs, outputs, count in products_of(model):
        outputs = (outputs + 63) // 64 * 64
        x, w, dy = make(batch * length, inputs), make(outputs, inputs), make(batch * length, outputs)
        total += count * (seconds(lambda: x @ w.t()) + seconds(lambda: dy @ w) + seconds(lambda: dy.t() @ x))
        flops += 6 * count * batch * length * inputs * outputs
    large = torch.randn(1 << 29, device="cuda")  # 2 GiB
    other = torch.empty_like(large)
    copy = seconds(lambda: other.copy_(large))
    return dict(seconds=total, mib=torch.cuda.max_memory_allocated() / 2**20, tflops=flops / total / 1e12, copy_gb_s=2 * 4 * (1 << 29) / copy / 1e9)


def worker(arguments):
    run, model = arguments.runs[0], arguments.models[0]
    print(json.dumps(time_products(model) if run == "products" else train(run, model, arguments.steps)))


def train_weft(arguments, run, model):
    batch, length = SHAPES[model]
    options = json.dumps({"strategy": "none", "device": "cuda", **BOOSTERS[run]})
    step = json_lines([str(arguments.program), "booster", str(config_of(model)), str(batch), str(length), str(arguments.steps), options]
                      + ["profile"] * bool(arguments.profile), arguments.timeout)[-1]
    return dict(seconds=statistics.mean(step["seconds"][WARM_UP:]), mib=step["device_mib_peak"], loss=step["loss"],
                profile={key: step[key] for key in ("kernels", "pauses") if key in step})


def run_of(arguments, run, model):
    if run in BOOSTERS:
        return lambda: train_weft(arguments, run, model)
    command = [sys.executable, "-W", "ignore", __file__, "--worker", "--models", model, "--runs", run, "--steps", str(arguments.steps)]
    if arguments.batch:
        command += ["--batch", str(arguments.batch)]
    return lambda: json_lines(command, arguments.timeout)[-1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    p.add_argument("--runs", nargs="+", choices=RUNS, default=RUNS)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--batch", type=int, help="samples of a batch")
    p.add_argument("--profile", help="a file of JSON to write")
    p.add_argument("--timeout", type=float, default=300, help="seconds of one run")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.steps <= WARM_UP:
        p.error(f"--steps is {a.steps}, must be more than the {WARM_UP} steps to warm up")
    if a.batch is not None and a.batch < 1:
        p.error(f"--batch is {a.batch}, must be at least 1")
    if a.batch:
        SHAPES.update({model: (a.batch, length) for model, (_, length) in SHAPES.items()})
    if a.worker:
        return worker(a)
    a.program = training_step_of(p, a.build)
    failed, profiles = [], {}
    print("| model | run | ms a step | tokens/s | fraction | memory, MiB | last loss |")
    print("|---|---|---|---|---|---|---|")
    for model in a.models:
        tokens = SHAPES[model][0] * SHAPES[model][1]
        alone = None
        # The products first: the others are compared with them.
        for run in sorted(a.runs, key=lambda run: run != "products"):
            begin = time.monotonic()
            try:
                found = run_of(a, run, model)()
            except Failed as error:
                failed.append(f"{model} ({run})")
                print(f"| {model} | {run} | {error} | | | | |", flush=True)
                continue
            finally:
                print(f"{model} {run}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
            if run == "products":
                alone = found["seconds"]
            if found.get("profile"):
                profiles[f"{model} {run}"] = found["profile"]
            fraction = f"{alone / found['seconds']:.2f}" if alone else ""
            last = f"{found['loss']:.4f}" if "loss" in found else f"{found['tflops']:.0f} TFLOP/s, copy {found['copy_gb_s']:.0f} GB/s"
            print(f"| {model} | {run} | {1000 * found['seconds']:.2f} | {tokens / found['seconds']:.0f} | {fraction} | {found['mib']:.0f} |"
                  f" {last} |", flush=True)
            if a.profile:
                pathlib.Path(a.profile).write_text(json.dumps(profiles, indent=1))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
