"""Compares the schedules zbv and 1f1b in the simulator, on costs measured in training.

  python3 tests/benchmarks/zero_bubble.py --build build/release [--layers 16] [--stages 4] [--micro-batches 8] [--sequence 256] [--steps 6]

Four stages on two cores would share the cores and so hide what they wait for; a simulation has a core for each stage. Its costs come from
`weft train --trace` of a Llama of width 384 on two ranks of one thread, a core for each, with two model chunks a rank: under zbv the times
of forwards, input gradients and weight gradients, and under interleaved those of forwards and whole backwards, for 1f1b. A cost is the
median over steps and micro-batches of what an operation takes without its waiting, after one step to warm up. Of the four virtual stages,
the two in the middle have blocks alone; they give the cost of a block, and the first and the last that of the embeddings and of the head
with the loss. `weft plan` says which units the virtual stages have, in the runs and with --stages stages. The time of a transfer is the
median from the start of a send to its end on a stage that was waiting for it.

schedule_times then simulates a step (core/plans/schedule). zbv is there twice: in the order that training runs, which is made for equal
costs, and in the one made for the measured costs. Needs a build with -DWEFT_BENCHMARKS=ON.
"""
import argparse, array, collections, json, os, pathlib, random, re, statistics, subprocess, tempfile

HERE = pathlib.Path(__file__).resolve().parent
RANKS, CHUNKS, WARM_UP = 2, 2, 1


def run(command):
    return subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, text=True, check=True).stdout


def strategy(stages, style):
    return ["--strategy", "torch_ddp", "-o", f"pp_size={stages}", "-o", f"pp_style={style}"]


def blocks_of(arguments, config, stages, style):
    """The number of blocks of each virtual stage, in the order of a forward."""
    text = run([f"{arguments.build}/bin/weft", "plan", "--model", config, "--explain", *strategy(stages, style)])
    units = re.findall(r"^stage \d+(?: chunk \d+)? +(.+)$", text, re.MULTILINE)
    blocks = [sum(name.startswith("layers.") for name in names.split(", ")) for names in units]
    if sum(blocks) != arguments.layers:
        raise SystemExit(f"weft plan of {stages} stages under {style} lists {sum(blocks)} blocks, must be {arguments.layers}:\n{text}")
    return blocks


def trace_of(arguments, folder, config, style):
    """The events of each rank, in the order in which they began."""
    path = folder / f"{style}.json"
    run([f"{arguments.build}/bin/weft", "train", "--model", config, "--data", folder / "tokens.bin", "--token-type", "uint16",
         "-n", str(RANKS), *strategy(RANKS, style), "-o", f"num_microbatches={arguments.micro_batches}",
         "--batch-size", str(arguments.micro_batches), "--sequence-length", str(arguments.sequence), "--steps", str(arguments.steps),
         "--trace", path])
    ranks = [[] for _ in range(RANKS)]
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X" and event["tid"] == 0:
            ranks[event["pid"]].append(event)
    return [sorted(events, key=lambda e: (e["ts"], -e["dur"])) for events in ranks]


def end_of(event):
    return event["ts"] + event["dur"]


def operations_of(events):
    """The operations of a rank, each with its time without waiting."""
    operations, waited_until = [], 0
    for event in events:
        if event["cat"] == "operation":
            operations.append([event["name"], event["dur"], end_of(event)])
        elif event["cat"] == "waiting" and operations and end_of(event) <= operations[-1][2] and event["ts"] >= waited_until:
            operations[-1][1] -= event["dur"]  # not what is nested in it
            waited_until = end_of(event)
    return [(name, time) for name, time, _ in operations]


def costs_of(arguments, ranks, is_vee):
    """The median time of each kind of operation, by kind and virtual stage."""
    times = collections.defaultdict(list)
    for rank, events in enumerate(ranks):
        operations = operations_of(events)
        for name, time in operations[len(operations) * WARM_UP // arguments.steps:]:
            kind, _, chunk = re.fullmatch(r"([FBIW])(\d+)\.(\d+)", name).groups()
            place = RANKS - 1 - rank if is_vee and int(chunk) % 2 == 1 else rank
            times[kind, int(chunk) * RANKS + place].append(time)
    kinds = {kind for kind, _ in times}
    return {kind: [statistics.median(times[kind, v]) for v in range(RANKS * CHUNKS)] for kind in kinds}


def transfer_of(ranks):
    """The time from the start of a send to its end on the other rank, where that was waiting for it."""
    sent, awaited = collections.defaultdict(list), collections.defaultdict(list)
    for rank, events in enumerate(ranks):
        for event in events:
            if match := re.fullmatch(r"send the (\w+) of micro-batch (\d+) to stage (\d+)", event["name"]):
                sent[match[1], match[2], int(match[3])].append(event["ts"])
            if match := re.fullmatch(r"wait for the (\w+) of micro-batch (\d+) from stage \d+ .*", event["name"]):
                awaited[match[1], match[2], rank].append(event)
    times = [end_of(event) - begin for key, begins in sent.items() for begin, event in zip(begins, awaited[key])
             if event["ts"] <= begin]
    return statistics.median(times) if times else 0


def regrouped(measured, blocks_measured, blocks):
    """The costs of virtual stages with other numbers of blocks."""
    block = sum(measured[1:-1]) / sum(blocks_measured[1:-1])
    first, last = (max(0, measured[v] - blocks_measured[v] * block) for v in (0, -1))
    return [n * block + (first if v == 0 else 0) + (last if v + 1 == len(blocks) else 0) for v, n in enumerate(blocks)]


def simulated(arguments, style, transfer, forward, inputs, weights):
    costs = [f"{f:.3f}:{i:.3f}:{w:.3f}" for f, i, w in zip(forward, inputs, weights)]
    return json.loads(run([f"{arguments.build}/tests/benchmarks/schedule_times", style, str(arguments.stages),
                           str(arguments.micro_batches), f"{transfer:.3f}", *costs]))


def milliseconds(costs):
    return " ".join(f"{cost / 1000:.1f}" for cost in costs)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/release")
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--stages", type=int, default=4)
    p.add_argument("--micro-batches", type=int, default=8)
    p.add_argument("--sequence", type=int, default=256)
    p.add_argument("--steps", type=int, default=6)
    a = p.parse_args()
    if a.steps <= WARM_UP:
        p.error(f"--steps is {a.steps}, must be more than the {WARM_UP} step to warm up")
    given = json.loads((HERE / "llama_6x384.json").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = folder / "config.json"
        config.write_text(json.dumps(dict(given, num_hidden_layers=a.layers)))
        tokens, draw = a.steps * a.micro_batches * a.sequence, random.Random(1)
        (folder / "tokens.bin").write_bytes(array.array("H", (draw.randrange(given["vocab_size"]) for _ in range(tokens))).tobytes())
        traces = {style: trace_of(a, folder, config, style) for style in ("interleaved", "zbv")}
        in_runs = {style: blocks_of(a, config, RANKS, style) for style in traces}
        blocks = {style: blocks_of(a, config, a.stages, style) for style in ("1f1b", "zbv")}
    whole, split = costs_of(a, traces["interleaved"], False), costs_of(a, traces["zbv"], True)
    transfer = transfer_of(traces["zbv"])
    plain = [regrouped(whole[kind], in_runs["interleaved"], blocks["1f1b"]) for kind in "FB"]
    halves = [regrouped(split[kind], in_runs["zbv"], blocks["zbv"]) for kind in "FIW"]
    one = simulated(a, "1f1b", transfer, *plain, [0] * a.stages)["as_trained"]
    zbv = simulated(a, "zbv", transfer, *halves)
    print(f"measured on {RANKS} ranks, ms by virtual stage: a transfer takes {transfer / 1000:.2f} ms")
    for style, costs in (("interleaved", whole), ("zbv", split)):
        for kind in sorted(costs):
            print(f"  {style}, blocks {in_runs[style]}: {kind} {milliseconds(costs[kind])}")
    print(f"\n| schedule, {a.stages} stages, {a.micro_batches} micro-batches | blocks by virtual stage | step, ms | bubble | 1f1b takes |")
    print("|---|---|---|---|---|")
    for schedule, style, result in (("1f1b", "1f1b", one), ("zbv, as training runs it", "zbv", zbv["as_trained"]),
                                    ("zbv, made for these costs", "zbv", zbv["made_for_these_costs"])):
        print(f"| {schedule} | {' '.join(map(str, blocks[style]))} | {result['makespan'] / 1000:.0f} | {100 * result['bubble']:.1f} % | "
              f"{one['makespan'] / result['makespan']:.2f} times as long |")


if __name__ == "__main__":
    main()
