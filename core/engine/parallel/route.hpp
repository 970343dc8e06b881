// Round a ring of rings.
#pragma once

#include <cstdlib>

namespace weft::parallel {

// The way of the keys and values of each rank: once past every rank, within groups of `inner` neighbours
// first.
class Route {
 public:
  // `inner` divides `ranks`.
  Route(int rank, int ranks, int inner) : rank_(rank), ranks_(ranks), inner_(inner) {}

  int steps() const { return ranks_; }
  // Whose part is here at a step, and where this rank's is.
  int here(int step) const { return moved(-step); }
  int own(int step) const { return moved(step); }
  // Where what is here goes after a step, and whence the next comes.
  int next(int step) const { return rank_at(place(rank_), hop(step), 1); }
  int previous(int step) const { return rank_at(place(rank_), hop(step), -1); }

 private:
  struct Place {
    int group, member;
  };
  // Steps from group to group, and within one.
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
