// Everything an application needs.
#pragma once

#include "weft/booster.hpp"
#include "weft/config.hpp"
#include "weft/data/dataset.hpp"
#include "weft/data/text.hpp"
#include "weft/error.hpp"
#include "weft/generation.hpp"
#include "weft/job.hpp"
#include "weft/model.hpp"
#include "weft/objective.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"
#include "weft/shard_former.hpp"
#include "weft/state.hpp"
#include "weft/step_log.hpp"
#include "weft/tokenizer.hpp"
#include "weft/world.hpp"
