// The route of keys and values through a ring of rings.
#pragma once

#include <cstdlib>

namespace weft::parallel {

// The route on which the keys and values of each rank visit every rank once. They first pass the `inner`
// neighbours of one inner ring, then move to the next inner ring.
class Route {
 public:
  // `inner` must divide `ranks`.
  Route(int rank, int ranks, int inner) : rank_(rank), ranks_(ranks), inner_(inner) {}

  int steps() const { return ranks_; }
  // Returns the rank whose part is here at `step`.
  int here(int step) const { return moved(-step); }
  // Returns the rank at which this rank's own part is at `step`.
  int own(int step) const { return moved(step); }
  // Returns the rank that receives the part which is here, after `step`.
  int next(int step) const { return rank_at(place(rank_), hop(step), 1); }
  // Returns the rank that sends the next part, after `step`.
  int previous(int step) const { return rank_at(place(rank_), hop(step), -1); }

 private:
  struct Place {
    int group, member;
  };
  // A move: by how many inner rings, and by how many members within one.
  struct Hops {
    int groups, members;
  };
  Place place(int rank) const { return {rank / inner_, rank % inner_}; }
  Hops hop(int step) const { return (step + 1) % inner_ == 0 ? Hops{1, 0} : Hops{0, 1}; }
  int rank_at(Place from, Hops hops, int sign) const {
    const int groups = ranks_ / inner_;
    const auto wrap = [](int value, int size) { return (value % size + size) % size; };
    return wrap(from.group + sign * hops.groups, groups) * inner_ +
           wrap(from.member + sign * hops.members, inner_);
  }
  int moved(int steps) const {
    const int count = std::abs(steps);
    return rank_at(place(rank_), {count / inner_, count - count / inner_}, steps < 0 ? -1 : 1);
  }

  int rank_, ranks_, inner_;
};

}  // namespace weft::parallel
