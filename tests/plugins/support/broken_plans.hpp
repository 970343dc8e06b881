// Plans with a mistake: each entry of a shipped policy left out, and attributes of its layers changed.
#pragma once

#include "plugins/support/parity.hpp"

namespace weft::test {

// Expects that every plan with a mistake is refused or, for a few operations, has other gradients than one
// rank, and that all other changes (an entry left out that only selects a form, a replicated MLP) have the
// gradients of one rank. `options` are of a strategy with a tensor or a sequence axis. `count` changes are
// drawn from the seed.
void expect_every_mistake_is_refused(const std::string& name, const Trial& trial, const JobOptions& options,
                                     int ranks, size_t count);

}  // namespace weft::test
