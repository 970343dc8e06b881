// Plans with a mistake: each entry of a shipped policy left out, each layout turned round.
#pragma once

#include "plugins/support/parity.hpp"

namespace weft::test {

// Expects that every plan with a mistake is refused or has other gradients than one rank, and that the whole
// plan, as a policy in JSON, has the same. `options` are of a strategy with a tensor or a sequence axis;
// of all mistakes `count` are drawn from the seed.
void expect_every_mistake_is_seen(const std::string& name, const Trial& trial, const JobOptions& options,
                                  int ranks, size_t count);

}  // namespace weft::test
