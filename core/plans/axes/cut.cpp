#include "axes/cut.hpp"

#include <algorithm>

namespace weft {

namespace {

using Parts = std::vector<const Cut*>;

bool holds(const std::vector<Run>& runs, int64_t index) {
  return std::any_of(runs.begin(), runs.end(),
                     [&](const Run& run) { return run.begin <= index && index < run.end(); });
}

// Returns the first index after `index`, at most `limit`, where a run of some part begins or ends.
int64_t next_change(const Parts& parts, size_t dim, int64_t index, int64_t limit) {
  for (const Cut* part : parts)
    for (const Run& run : part->dims[dim])
      for (const int64_t change : {run.begin, run.end()})
        if (change > index) limit = std::min(limit, change);
  return limit;
}

// Returns true if `part` has all indices of `runs`.
bool covers(const std::vector<Run>& part, const std::vector<Run>& runs) {
  if (part == runs) return true;
  return std::all_of(runs.begin(), runs.end(), [&](const Run& wanted) {
    int64_t index = wanted.begin;
    for (size_t round = 0; round <= part.size() && index < wanted.end(); ++round)
      for (const Run& run : part)
        if (run.begin <= index && index < run.end()) index = run.end();
    return index >= wanted.end();
  });
}

bool overlaps(const std::vector<Run>& one, const std::vector<Run>& other) {
  return std::any_of(one.begin(), one.end(), [&](const Run& a) {
    return std::any_of(other.begin(), other.end(),
                       [&](const Run& b) { return std::max(a.begin, b.begin) < std::min(a.end(), b.end()); });
  });
}

class FirstHeld {
 public:
  explicit FirstHeld(const Cut& own) : own_(own), elements_(own.dims.size() + 1, 1) {
    const std::vector<int64_t> local = own.local();
    for (size_t dim = local.size(); dim-- > 0;) elements_[dim] = elements_[dim + 1] * local[dim];
  }

  // Adds the elements that lie at one place of the dimensions before `dim`, without those that `others` hold.
  // The elements begin at `at` in the flattened part; `others` hold that place of the earlier dimensions.
  void add(const Parts& others, size_t dim, int64_t at) {
    if (others.empty()) return append(at, elements_[dim]);
    const auto holds_all = [&](const Cut* other) {
      for (size_t d = dim; d < own_.dims.size(); ++d)
        if (!covers(other->dims[d], own_.dims[d])) return false;
      return true;
    };
    if (std::any_of(others.begin(), others.end(), holds_all)) return;
    for (const Run& run : own_.dims[dim]) {
      for (int64_t from = run.begin; from < run.end();) {
        const int64_t to = next_change(others, dim, from, run.end());
        Parts holding;
        for (const Cut* other : others)
          if (holds(other->dims[dim], from)) holding.push_back(other);
        if (holding.empty()) append(at, (to - from) * elements_[dim + 1]);
        for (int64_t i = 0; !holding.empty() && i < to - from; ++i)
          add(holding, dim + 1, at + i * elements_[dim + 1]);
        at += (to - from) * elements_[dim + 1];
        from = to;
      }
    }
  }

  std::vector<Run> take() { return std::move(runs_); }

 private:
  void append(int64_t at, int64_t count) {
    if (count == 0) return;
    if (!runs_.empty() && runs_.back().end() == at)
      runs_.back().count += count;
    else
      runs_.push_back({at, count});
  }

  const Cut& own_;
  std::vector<int64_t> elements_;  // the product of the local sizes from each dimension on
  std::vector<Run> runs_;
};

}  // namespace

std::vector<Run> first_held(const std::vector<Cut>& parts, size_t own) {
  Parts before;
  for (size_t part = 0; part < own; ++part) {
    bool meets = true;
    for (size_t dim = 0; dim < parts[own].dims.size() && meets; ++dim)
      meets = overlaps(parts[part].dims[dim], parts[own].dims[dim]);
    if (meets) before.push_back(&parts[part]);
  }
  FirstHeld found(parts[own]);
  found.add(before, 0, 0);
  return found.take();
}

std::vector<SharedRun> shared_runs(const std::vector<Cut>& parts, size_t own, size_t dim) {
  Parts all;
  for (const Cut& part : parts) all.push_back(&part);
  std::vector<SharedRun> shared;
  for (const Run& run : parts[own].dims[dim]) {
    for (int64_t from = run.begin; from < run.end();) {
      const int64_t to = next_change(all, dim, from, run.end());
      std::vector<uint32_t> holders;
      for (size_t part = 0; part < parts.size(); ++part)
        if (holds(parts[part].dims[dim], from)) holders.push_back(static_cast<uint32_t>(part));
      if (!shared.empty() && from > run.begin && shared.back().holders == holders)
        shared.back().run.count += to - from;
      else
        shared.push_back({{from, to - from}, std::move(holders)});
      from = to;
    }
  }
  return shared;
}

std::vector<size_t> split_dims(const std::vector<int64_t>& shape, const std::vector<Cut>& parts) {
  std::vector<size_t> dims;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const std::vector<Run> whole = {{0, shape[dim]}};
    if (std::any_of(parts.begin(), parts.end(), [&](const Cut& part) { return part.dims[dim] != whole; }))
      dims.push_back(dim);
  }
  return dims;
}

}  // namespace weft
