"""Compares Weft's strategies with PyTorch's on the same job, alternately, and prints a table.

  python tests/benchmarks/two_ranks.py --build build/release [--pairs ddp ddp_views zero fsdp gemini tensor sequence] [--rounds 3] [--steps 8]

4 samples of 256 tokens a rank, fp32, fused AdamW, two ranks of one thread each, Gloo on loopback. PyTorch runs Hugging Face's
model, not compiled. Pairs on GPT-2 (gpt2_6x384.json): torch_ddp and DistributedDataParallel without and with
gradient_as_bucket_view, low_level_zero stage 1 and ZeroRedundancyOptimizer over DDP, torch_fsdp and fully_shard by block
(FSDP2), gemini and Weft's own torch_fsdp. On Llama (llama_6x384.json), whose ranks share their 4 samples: hybrid_parallel with
tp_size 2 and DTensor's parallelize_module with a vocabulary-parallel embedding and head; and the sequence_parallelism_modes beside
tp_size 2. Needs a Python with torch 2.11 and transformers (packaging/oracle-python prints one) and a build with -DWEFT_BENCHMARKS=ON.

Rates are those of the best step of all rounds, per second of wall time and of processor time, after two steps to warm up. Memory is of
the largest rank: the growth of its resident set since the moment after all imports and before the model, and the peak of the whole
process. Bytes are the difference of the loopback device's counter over the steps after the warm-up, per rank and step; traffic of other
programs on this device would be in it.
"""
import argparse, json, os, pathlib, resource, socket, subprocess, sys, time

HERE = pathlib.Path(__file__).resolve().parent
BATCH, SEQUENCE, RANKS, WARM_UP = 4, 256, 2, 2


def split_over(axis, mode):
    return {axis: 2, "enable_sequence_parallelism": True, "sequence_parallelism_mode": mode}


# pair: (PyTorch's mode or None, Weft's runs as strategy and options; the ratio is of the first to the last of all)
PAIRS = {
    "ddp": ("ddp", [("torch_ddp", {})]),
    "ddp_views": ("ddp_views", [("torch_ddp", {"gradient_as_bucket_view": True})]),
    "zero": ("zero", [("low_level_zero", {"stage": 1})]),
    "fsdp": ("fsdp", [("torch_fsdp", {})]),
    "gemini": (None, [("gemini", {}), ("torch_fsdp", {})]),
    "tensor": ("tensor", [("hybrid_parallel", {"tp_size": 2})]),
    "sequence": (None, [("hybrid_parallel", options) for options in (
        split_over("tp_size", "split_gather"), split_over("tp_size", "ring"), split_over("sp_size", "all_to_all"),
        split_over("sp_size", "ring_attn"), {"tp_size": 2})]),
}


def model_of(pair):
    return HERE / ("llama_6x384.json" if pair in ("tensor", "sequence") else "gpt2_6x384.json")


def resident_mib(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) / 1024


def loopback_mib():
    for line in open("/proc/net/dev"):
        if line.strip().startswith("lo:"):
            return int(line.split()[1]) / 2**20


def distribute(model, mode):
    import torch
    if mode not in ("fsdp", "tensor"):
        return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=mode != "ddp")
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (RANKS,))
    if mode == "tensor":
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        column, row = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"), ("self_attn.o_proj", "mlp.down_proj")
        for block in model.model.layers:
            parallelize_module(block, mesh, {**{n: ColwiseParallel() for n in column}, **{n: RowwiseParallel() for n in row}})
        return parallelize_module(model, mesh, {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
                                                "lm_head": ColwiseParallel(output_layouts=Replicate())})
    from torch.distributed.fsdp import fully_shard
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def optimizer_of(model, mode):
    import torch
    options = dict(lr=1e-3, weight_decay=0.01, fused=True)
    if mode == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **options)
    groups = {}  # the fused kernel takes no mix of DTensor and Tensor
    for parameter in model.parameters():
        groups.setdefault(type(parameter.data), []).append(parameter)
    return torch.optim.AdamW([{"params": group} for group in groups.values()], **options)


def import_all(config):
    """What torch and transformers import on first use; the model on the meta device has no memory."""
    import torch, torch._dynamo, torch.distributed.fsdp, torch.distributed.optim, torch.distributed.tensor.parallel, transformers
    with torch.device("meta"):
        transformers.AutoModelForCausalLM.from_config(config)


def worker(steps, mode):
    import torch, torch.distributed as dist, transformers
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    config = transformers.AutoConfig.from_pretrained(model_of(mode), use_cache=False)
    import_all(config)
    rank, before = dist.get_rank(), resident_mib("VmRSS")
    torch.manual_seed(0)
    model = distribute(transformers.AutoModelForCausalLM.from_config(config).train(), mode)
    optimizer = optimizer_of(model, mode)
    ids = torch.randint(0, config.vocab_size, (BATCH, SEQUENCE), generator=torch.Generator().manual_seed(1 + rank * (mode != "tensor")))
    seconds, processor, sent = [], [], 0
    for step in range(steps):
        if step == WARM_UP:
            dist.barrier()
            sent = loopback_mib()
        start, used = time.perf_counter(), time.process_time()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    dist.barrier()
    sent = loopback_mib() - sent
    print(json.dumps(dict(rank=rank, tokens=BATCH * SEQUENCE * (1 if mode == "tensor" else RANKS), seconds=seconds, processor_seconds=processor,
                          loss=loss.detach().item(), resident_mib_before=before, loopback_mib=sent,
                          resident_mib_peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)), flush=True)
    dist.destroy_process_group()


def run_torch(arguments, mode):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = []
    for rank in range(RANKS):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", TRANSFORMERS_VERBOSITY="error")
        command = [sys.executable, "-W", "ignore", __file__, "--worker", mode, "--steps", str(arguments.steps)]
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    return [json.loads(r.communicate()[0].splitlines()[-1]) for r in ranks]


def run_weft(arguments, model, strategy, options):
    build = pathlib.Path(arguments.build)
    booster = json.dumps({"strategy": strategy, "options": options})
    command = [build / "bin/weft", "run", "-n", str(RANKS), build / "tests/benchmarks/training_step", "booster",
               model, str(BATCH), str(SEQUENCE), str(arguments.steps), booster]
    out = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def summary(rounds):
    first = rounds[0][0]
    steps = range(WARM_UP, len(first["seconds"]))
    best = min(ranks[0]["seconds"][i] for ranks in rounds for i in steps)
    cpu = min(sum(r["processor_seconds"][i] for r in ranks) for ranks in rounds for i in steps)
    growth = max(r["resident_mib_peak"] - r["resident_mib_before"] for ranks in rounds for r in ranks)
    whole = max(r["resident_mib_peak"] for ranks in rounds for r in ranks)
    wire = min(r["loopback_mib"] for ranks in rounds for r in ranks) / RANKS / len(steps)
    return dict(best=first["tokens"] / best, per_cpu=first["tokens"] / cpu, growth=growth, whole=whole, wire=wire)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.steps <= WARM_UP:
        p.error(f"--steps is {a.steps}, must be more than the {WARM_UP} steps to warm up")
    if a.worker:
        return worker(a.steps, a.worker)
    print("| pair | run | tokens/s, best step | tokens per processor second | growth of memory, MiB | whole process, MiB | sent, MiB |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for pair in a.pairs:
        torch_mode, weft_runs = PAIRS[pair]
        runs = {f"Weft {s} {o.get('sequence_parallelism_mode', '')}".strip(): lambda s=s, o=o: run_weft(a, model_of(pair), s, o) for s, o in weft_runs}
        if torch_mode:
            runs[f"PyTorch {torch_mode}"] = lambda: run_torch(a, torch_mode)
        results = {name: [] for name in runs}
        for _ in range(a.rounds):
            for name, run in runs.items():
                results[name].append(run())
        figures = {name: summary(rounds) for name, rounds in results.items()}
        for name, f in figures.items():
            print(f"| {pair} | {name} | {f['best']:.0f} | {f['per_cpu']:.0f} | {f['growth']:.0f} | {f['whole']:.0f} | {f['wire']:.1f} |", flush=True)
        (first, ours), (last, other) = list(figures.items())[0], list(figures.items())[-1]
        ratios.append(f"{first} / {last}: best step {ours['best'] / other['best']:.3f}, per processor second "
                      f"{ours['per_cpu'] / other['per_cpu']:.3f}, memory {ours['growth'] / other['growth']:.3f}, "
                      f"bytes {ours['wire'] / other['wire']:.3f}")
    print("\n" + "\n".join(ratios))


if __name__ == "__main__":
    main()
