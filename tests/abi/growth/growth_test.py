#!/usr/bin/env python3
"""What was built with longer or shorter structs than this host's works as what was built with its own."""
import argparse
import json
import os
import subprocess
import tempfile


def run(*command, stdin="", **environment):
    done = subprocess.run(command, text=True, capture_output=True, timeout=200, input=stdin,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def losses(weft, config, data, folder, *more, **environment):
    metrics = os.path.join(folder, "metrics.jsonl")
    run(weft, "train", "--model", config, "--data", data, "-n", "2", "--steps", "3", "--batch-size", "4",
        "--sequence-length", "32", "--metrics", metrics, *more, **environment)
    with open(metrics, encoding="utf-8") as file:
        return [line["loss"] for line in map(json.loads, file) if "loss" in line]


def prove(given, config):
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "text.txt")
        with open(data, "w", encoding="utf-8") as file:
            file.write("The cat sat on the mat and looked at the moon. " * 60)

        def train(way):
            return losses(given.weft, config, data, folder, "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o",
                          "custom_policy=strict", WEFT_PLUGIN_ADD_PATH=os.path.join(given.plugins, f"strict_{way}"))
        train("as_is")
        try:
            train("longer")
        except AssertionError as error:
            assert "weft_model_view has another size" in str(error), error
            print("a plugin that demands structs of its own size is found")
            return
    raise AssertionError("a plugin that demands structs of its own size trained with longer ones")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prove", action="store_true", help="the test fails with a plugin that demands structs of its own size")
    for name in ("weft", "programs", "plugins", "samples"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    config = os.path.join(given.samples, "gpt2_bytes/config.json")
    if given.prove:
        return prove(given, config)

    lines = {way: run(os.path.join(given.programs, f"weft_growth_{way}"), config)
             for way in ("as_is", "before", "longer", "shorter")}
    assert "step 3 loss" in lines["as_is"], lines["as_is"]
    for way, said in lines.items():
        assert said == lines["as_is"], f"the {way} program says\n{said}and not\n{lines['as_is']}"

    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "text.txt")
        with open(data, "w", encoding="utf-8") as file:
            file.write("The cat sat on the mat and looked at the moon. " * 60)
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"tokenizer_class": "CharacterTokenizer"}, file)
        with open(os.path.join(folder, "characters.txt"), "w", encoding="utf-8") as file:
            file.write("abc")
        policy = os.path.join(given.samples, "policy_json/policy.json")
        hybrid = ("--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o")
        summed = losses(given.weft, config, data, folder, "--strategy", "torch_ddp")
        split = losses(given.weft, config, data, folder, *hybrid, f"custom_policy={policy}")
        assert len(summed) == 3 and len(split) == 3, (summed, split)
        adapter = os.path.join(folder, "adapter.json")
        with open(adapter, "w", encoding="utf-8") as file:
            json.dump({"operation": "sample.low_rank_stable/1", "on": "h.*.mlp.c_fc", "rank": 2}, file)
        adapted = []
        ended = losses(given.weft, config, data, folder, "--strategy", "torch_ddp")[:1]
        for way in ("longer", "before"):
            plugins = os.path.join(given.plugins, way)
            grown = {"WEFT_PLUGIN_ADD_PATH": plugins}
            for plugin in sorted(os.listdir(plugins)):
                run(given.weft, "plugins", "validate", "--interface-only", os.path.join(plugins, plugin, "1.0.0"))
            found = losses(given.weft, config, data, folder, "--strategy", "late_sum", **grown)
            assert found == summed, (way, found, summed)
            found = losses(given.weft, config, data, folder, *hybrid, "custom_policy=mlp_only", **grown)
            assert found == split, (way, found, split)
            adapted.append(losses(given.weft, config, data, folder, "--strategy", "torch_ddp", "--adapter", adapter, **grown))
            found = losses(given.weft, config, data, folder, "--strategy", "torch_ddp", "--hook", "time_budget",
                           "--hook-option", "time_budget.seconds=0", **grown)
            assert found == ended, (way, found, ended)
            told = run(given.weft, "tokenizer", "encode", "--model", folder, stdin="cab\n", **grown)
            assert len(json.loads(told)) >= 3, (way, told)
        assert adapted[0] == adapted[1] != summed and len(adapted[0]) == 3, (adapted, summed)
    print(f"{len(lines)} programs, plugins of five kinds in two ways")


if __name__ == "__main__":
    main()
