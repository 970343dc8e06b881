#include "cuda/factored_rules.hpp"

#include <algorithm>
#include <memory>

#include "cpu/update_rules.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

using namespace kernels;
using cuda::Chunk;
using cuda::FactoredRange;

// A range of matrices, and the elements of it that count.
struct Place {
  MatrixRange range;
  int64_t counted_begin, counted_end;
};

const std::vector<Place> kPlaces = {
    {{0, 7 * 300, 7, 300}, 0, 7 * 300},               // a whole matrix, two tiles wide
    {{5, 2, 3, 4}, 0, 2},                             // across the end of a row
    {{9, 50, 4, 5}, 3, 40},                           // of four matrices, a part of which counts
    {{0, 0, 3, 4}, 0, 0},                             // none
    {{0, 9000, 1, 9000}, 17, 8999},                   // a vector longer than a chunk
    {{4, 9200, 100, 94}, 100, 9200},                  // two tiles high, two chunks
    {{8192 * 3 - 1, 8200, 2, 8192}, 0, 8200},         // rows as long as a chunk
    {{3, 3 * 10000 - 7, 2, 10000}, 1, 3 * 10000 - 7}  // and longer
};

// Calls body(element of the range, row, column) for each element, all counted from the first of the range.
template <class Body>
void for_elements(const MatrixRange& range, const Body& body) {
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t at = range.begin + i, row = at / range.columns, matrix = row / range.rows;
    body(i, row - range.first_row(), (matrix - range.first_matrix()) * range.columns + at % range.columns);
  }
}

double rate_of(size_t r) {
  return 0.1 * static_cast<double>(r + 1);
}
double keep_of(size_t r) {
  return 1 - 0.01 * static_cast<double>(r + 1);
}

template <class T>
struct Ranges {
  explicit Ranges(bool with_values = true) {
    std::vector<int64_t> lengths;
    std::vector<MatrixRange> places;
    for (const Place& place : kPlaces) {
      lengths.push_back(place.range.count);
      places.push_back(place.range);
    }
    const cuda::FactoredSumsPlan plan(places);
    std::vector<FactoredRange<T>> table;
    int64_t first_chunk = 0;
    for (size_t r = 0; r < kPlaces.size(); ++r) {
      const auto seed = static_cast<uint32_t>(10 * r);
      const auto made = [&](int64_t count, uint32_t which) {
        return std::make_unique<Buffer<T>>(normal(count, seed + which), static_cast<int64_t>(r % 2));
      };
      const Place& place = kPlaces[r];
      values.push_back(made(place.range.count, 0));
      gradients.push_back(made(place.range.count, 1));
      rows.push_back(made(place.range.num_rows(), 2));
      columns.push_back(made(place.range.num_columns(), 3));
      const int64_t chunks = (place.range.count + cuda::kChunkElements - 1) / cuda::kChunkElements;
      table.push_back({with_values ? values[r]->data() : nullptr, gradients[r]->data(), rows[r]->data(),
                       columns[r]->data(), rate_of(r), keep_of(r), place.range, place.range.first_row(),
                       place.range.first_matrix(), place.counted_begin, place.counted_end, first_chunk,
                       chunks, plan.first_sums[r]});
      first_chunk += chunks;
    }
    ranges = std::make_unique<Buffer<FactoredRange<T>>>(table);
    chunks = std::make_unique<Buffer<Chunk>>(cuda::chunks_of(lengths));
    strips = std::make_unique<Buffer<cuda::Tile>>(plan.strips);
    tiles = std::make_unique<Buffer<cuda::Tile>>(plan.tiles);
    tile_columns = std::make_unique<Buffer<cuda::TileColumns>>(plan.columns);
    num_sums = plan.num_sums;
  }
  cuda::FactoredTable<T> table() { return {ranges->data(), chunks->data(), ranges->size(), chunks->size()}; }
  cuda::FactoredSumsTable<T> sums_table() {
    return {ranges->data(), strips->data(), tiles->data(),       tile_columns->data(),
            strips->size(), tiles->size(),  tile_columns->size()};
  }
  Results results() {
    Results results;
    for (const auto& buffer : values) results.push_back(buffer->values());
    return results;
  }
  // The direction without a rate.
  double direction(size_t r, int64_t i, int64_t row, int64_t column) {
    return exact((*rows[r])[row]) * (exact((*gradients[r])[i]) * exact((*columns[r])[column]));
  }

  std::vector<std::unique_ptr<Buffer<T>>> values, gradients, rows, columns;
  std::unique_ptr<Buffer<FactoredRange<T>>> ranges;
  std::unique_ptr<Buffer<Chunk>> chunks;
  std::unique_ptr<Buffer<cuda::Tile>> strips, tiles;
  std::unique_ptr<Buffer<cuda::TileColumns>> tile_columns;
  int64_t num_sums = 0;
};

template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 1e-6 : 1e-14;

template <class Test>
void for_exact_types(const Test& test) {
  test(float());
  test(double());
}

TEST(FactoredRulesOnHost, ChangeValuesByTheFactorsOfRowsAndColumns) {
  for_exact_types([]<class T>(T) {
    const auto run = [](bool average) {
      return in_every_order([&] {
        Ranges<T> of;
        if (average)
          cuda::factored_average(of.table(), 0.75, nullptr);
        else
          cuda::factored_step(of.table(), nullptr);
        return of.results();
      });
    };
    const Results steps = run(false), averages = run(true);
    Ranges<T> of;
    for (size_t r = 0; r < kPlaces.size(); ++r) {
      SCOPED_TRACE(r);
      std::vector<double> step = of.values[r]->values(), average = step;
      for_elements(kPlaces[r].range, [&](int64_t i, int64_t row, int64_t column) {
        const double u = rate_of(r) * of.direction(r, i, row, column);
        step[static_cast<size_t>(i)] = keep_of(r) * step[static_cast<size_t>(i)] - u;
        average[static_cast<size_t>(i)] = 0.75 * average[static_cast<size_t>(i)] + 0.25 * u;
      });
      expect_near(steps[r], step, kTolerance<T>, 4 * kTolerance<T>, "value");
      expect_near(averages[r], average, kTolerance<T>, 4 * kTolerance<T>, "average");
    }
  });
}

TEST(FactoredRulesOnHost, AreThoseOfTheCpu) {
  for_exact_types([]<class T>(T) {
    const Results found = in_every_order([] {
      Ranges<T> of;
      cuda::factored_average(of.table(), 0.75, nullptr);
      cuda::factored_step(of.table(), nullptr);
      return of.results();
    });
    Ranges<T> cpu;
    for (size_t r = 0; r < kPlaces.size(); ++r)
      for_elements(kPlaces[r].range, [&](int64_t i, int64_t row, int64_t column) {
        T* const w = cpu.values[r]->data() + i;
        const T* const g = cpu.gradients[r]->data() + i;
        const T* const c = cpu.columns[r]->data() + column;
        const T factor = cpu.rows[r]->data()[row];
        kernels::factored_average<T>(1, w, g, c, static_cast<T>(0.25 * rate_of(r)) * factor, T(0.75));
        kernels::factored_step<T>(1, w, g, c, static_cast<T>(rate_of(r)) * factor,
                                  static_cast<T>(keep_of(r)));
      });
    const Results wanted = cpu.results();
    for (size_t r = 0; r < wanted.size(); ++r)
      expect_near(found[r], wanted[r], kTolerance<T>, 4 * kTolerance<T>, "kernels/cpu");
  });
}

TEST(FactoredRulesOnHost, NormsAreThoseOfTheCountedDirections) {
  for_exact_types([]<class T>(T) {
    const Results found = in_every_order([] {
      Ranges<T> of;
      Buffer<double> parts(of.chunks->size()), sums(of.ranges->size());
      cuda::factored_norms(of.table(), parts.data(), sums.data(), nullptr);
      return Results{sums.values()};
    });
    Ranges<T> of;
    for (size_t r = 0; r < kPlaces.size(); ++r) {
      double wanted = 0;
      for_elements(kPlaces[r].range, [&](int64_t i, int64_t row, int64_t column) {
        if (i < kPlaces[r].counted_begin || i >= kPlaces[r].counted_end) return;
        const double u = of.direction(r, i, row, column);
        wanted += u * u;
      });
      EXPECT_NEAR(found[0][r], wanted, std::max(kTolerance<T>, 1e-12) * wanted) << r;
    }
  });
}

// Of squares without values, otherwise of the squares of the differences from them.
TEST(FactoredRulesOnHost, SumsAreThoseOfTheCountedRowsAndColumns) {
  for_exact_types([]<class T>(T) {
    for (const bool with_values : {false, true}) {
      const Results found = in_every_order([&] {
        Ranges<T> of(with_values);
        Buffer<double> parts(of.tiles->size() * cuda::kTileColumns), sums(of.num_sums);
        cuda::factored_sums(of.sums_table(), parts.data(), sums.data(), nullptr);
        return Results{sums.values()};
      });
      Ranges<T> of;
      std::vector<double> wanted;
      for (size_t r = 0; r < kPlaces.size(); ++r) {
        const MatrixRange& range = kPlaces[r].range;
        const size_t first = wanted.size(), of_columns = first + static_cast<size_t>(range.num_rows());
        wanted.resize(of_columns + static_cast<size_t>(range.num_columns()));
        for_elements(range, [&](int64_t i, int64_t row, int64_t column) {
          if (i < kPlaces[r].counted_begin || i >= kPlaces[r].counted_end) return;
          const double x = with_values
                               ? rate_of(r) * of.direction(r, i, row, column) - exact((*of.values[r])[i])
                               : exact((*of.gradients[r])[i]);
          wanted[first + static_cast<size_t>(row)] += x * x;
          wanted[of_columns + static_cast<size_t>(column)] += x * x;
        });
      }
      const double tolerance = std::max(kTolerance<T>, 1e-12);
      expect_near(found[0], wanted, tolerance, tolerance, "sum");
    }
  });
}

}  // namespace
}  // namespace weft::testing
