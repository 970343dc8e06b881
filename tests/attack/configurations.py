"""Kind "config": a config.json with a wrong field. It is refused, or the model trains a step."""
import json

import mutate
from bench import CONFIG, LLAMA, T5

LARGE = [4097, 2**31 - 1, 2**31, 2**40, 2**63 - 1]


def run(case):
    rng = case.random
    config = dict(rng.choice([CONFIG, CONFIG, LLAMA, T5]))
    how = rng.random()
    if how < 0.25:  # sizes that nobody has the memory for
        key = rng.choice([key for key, value in config.items() if type(value) is int])
        config[key] = rng.choice(LARGE)
        data, case.what = json.dumps(config).encode(), f"{key} is {config[key]}"
    elif how < 0.9:
        for _ in range(rng.choice([1, 1, 1, 2])):
            config, what = mutate.changed_json(rng, config)
            case.what += what + "; "
            if not isinstance(config, dict):
                break
        data = json.dumps(config).encode()
    else:
        data, case.what = mutate.changed_json_text(rng, json.dumps(config).encode())
    path = case.path("config.json")
    mutate.write(path, data)
    if rng.random() < 0.8:
        case.train("--model", path, "--strategy", "none", "--steps", "1", "--output", case.path("out"))
        case.expect_nothing_staged()
    else:
        case.weft(["plan", "--model", path])
