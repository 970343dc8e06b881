// Compares every rule with tests/oracles/optimizers, on parameters that are cut as strategies cut them.
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "device/reading.hpp"
#include "optim/rules.hpp"
#include "support/tolerances.hpp"

#include <gtest/gtest.h>

namespace weft::optim {
namespace {

using at::Tensor;
using nlohmann::json;

const json& oracle() {
  static const std::string path = WEFT_ORACLES "/optimizers/rules.json";
  static const json made = parse_json(read_file(path, 1 << 20), path);
  return made;
}

// A range of one rank's part of a parameter.
struct Part {
  Cut cut;
  int64_t begin, count, counted_begin, counted_count;
  Tensor value;
  States states;

  // Returns the elements as indices into the whole parameter.
  Tensor of(const Tensor& whole) const {
    Tensor part = whole;
    for (size_t dim = 0; dim < cut.dims.size(); ++dim) {
      std::vector<Tensor> runs;
      for (const Run& run : cut.dims[dim])
        runs.push_back(part.narrow(static_cast<int64_t>(dim), run.begin, run.count));
      part = at::cat(runs, static_cast<int64_t>(dim));
    }
    return part.flatten().narrow(0, begin, count).clone();
  }
};

using Shape = std::vector<int64_t>;
using Parts = std::vector<std::vector<Part>>;  // by rank
using Layout = std::function<Parts(const Shape& shape)>;

int64_t elements(const std::vector<int64_t>& shape) {
  return c10::multiply_integers(shape);
}

Part range(int64_t begin, int64_t end, Cut cut) {
  return {std::move(cut), begin, end - begin, 0, end - begin, {}, {}};
}

// Returns ranges of the whole part: all elements but the last, and the last.
std::vector<Part> two_ranges(const Cut& cut) {
  const int64_t all = elements(cut.local());
  return {range(0, all - 1, cut), range(all - 1, all, cut)};
}

const std::map<std::string, Layout> kLayouts = {
    {"one rank", [](const Shape& shape) { return Parts{{range(0, elements(shape), Cut::whole(shape))}}; }},
    {"copies that count a part each",
     [](const Shape& shape) {
       Parts ranks;
       const int64_t all = elements(shape);
       for (int64_t rank = 0; rank < 3; ++rank) {
         ranks.push_back({range(0, all, Cut::whole(shape))});
         ranks.back()[0].counted_begin = all * rank / 3;
         ranks.back()[0].counted_count = all * (rank + 1) / 3 - all * rank / 3;
       }
       return ranks;
     }},
    {"ranges that cut rows",
     [](const Shape& shape) {
       const int64_t all = elements(shape);
       const Cut cut = Cut::whole(shape);
       return Parts{
           {range(0, 1, cut), range(1, 2, cut)}, {}, {range(2, all - 1, cut), range(all - 1, all, cut)}};
     }},
    {"columns",
     [](const Shape& shape) {
       const size_t last = shape.size() - 1;
       const int64_t columns = shape.back();
       return Parts{two_ranges(Cut::along(shape, last, {{0, 1}})),
                    two_ranges(Cut::along(shape, last, {{1, columns - 1}}))};
     }},
    {"columns of two parts each",
     [](const Shape& shape) {
       const size_t last = shape.size() - 1;
       const int64_t columns = shape.back();
       if (columns < 3) return Parts{{range(0, elements(shape), Cut::whole(shape))}};
       return Parts{two_ranges(Cut::along(shape, last, {{0, 1}, {2, columns - 2}})),
                    two_ranges(Cut::along(shape, last, {{1, 1}}))};
     }},
    {"rows of two parts each",
     [](const Shape& shape) {
       if (shape[0] < 3) return Parts{{range(0, elements(shape), Cut::whole(shape))}};
       return Parts{two_ranges(Cut::along(shape, 0, {{2, shape[0] - 2}, {0, 1}})),
                    two_ranges(Cut::along(shape, 0, {{1, 1}}))};
     }},
    // Blocks of rows and columns on four ranks, whose columns are in two runs each.
    {"blocks", [](const Shape& shape) {
       const size_t last = shape.size() - 1;
       const int64_t rows = shape.front(), columns = shape.back();
       if (shape.size() < 2 || rows < 2 || columns < 4)
         return Parts{{range(0, elements(shape), Cut::whole(shape))}};
       Parts ranks;
       for (const std::vector<Run>& of_rows : {std::vector<Run>{{0, 1}}, {{1, rows - 1}}})
         for (const std::vector<Run>& of_columns :
              {std::vector<Run>{{0, 1}, {2, 1}}, {{1, 1}, {3, columns - 3}}}) {
           Cut cut = Cut::along(shape, 0, of_rows);
           cut.dims[last] = of_columns;
           ranks.push_back(two_ranges(cut));
         }
       return ranks;
     }}};

// One parameter on several ranks, and what the host does in an update.
class Ranks {
 public:
  Ranks(const Rule& rule, Hyper options, std::vector<int64_t> shape, const Layout& layout,
        const Tensor& initial)
      : rule_(rule), options_(std::move(options)), shape_(std::move(shape)), parts_(layout(shape_)) {
    whole_states_.resize(parts_.size());
    for (auto& rank : parts_)
      for (Part& part : rank) part.value = part.of(initial);
  }

  void update(const Tensor& gradient, int64_t step, double factor) {
    std::vector<Whole> wholes(parts_.size());
    std::vector<UpdateBatch> batches;
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      wholes[rank].shape = shape_;
      wholes[rank].dtype = gradient.scalar_type();
      wholes[rank].state = &whole_states_[rank];
      batches.push_back({options_, step, factor, {}, {&wholes[rank]}});
      for (Part& part : parts_[rank])
        batches.back().slices.push_back({part.value, part.of(gradient), &part.states, &wholes[rank],
                                         &part.cut, part.begin, part.counted_begin, part.counted_count});
    }
    for (int round = 0; round <= rule_.rounds(); ++round) {
      for (size_t rank = 0; rank < parts_.size(); ++rank) {
        const int64_t sums = round < rule_.rounds() ? rule_.num_sums(round, shape_) : 0;
        wholes[rank].partial.assign(static_cast<size_t>(sums), 0.0);
        device::Reading reading;
        if (round > 0) rule_.update(round, batches[rank], reading);
        for (Slice& slice : batches[rank].slices)
          if (round == 0) rule_.measure(slice, options_, reading);
        reading.read();
      }
      std::vector<double> total(wholes[0].partial.size());
      for (const Whole& whole : wholes)
        for (size_t i = 0; i < total.size(); ++i) total[i] += whole.partial[i];
      for (Whole& whole : wholes) whole.sums.push_back(total);
    }
  }

  // For a layout with one part.
  const Tensor& values() const { return parts_.at(0).at(0).value; }

  void expect_values(const Tensor& values, double tolerance, const std::string& what) const {
    for (const auto& rank : parts_)
      for (const Part& part : rank)
        EXPECT_TRUE(test::is_near(part.value, part.of(values), tolerance)) << what;
    for (size_t rank = 1; rank < parts_.size(); ++rank)
      for (const auto& [name, state] : whole_states_[0])
        EXPECT_TRUE(whole_states_[rank].at(name).equal(state)) << what << ": " << name;
  }

  // The states are those that Rule::states names.
  void expect_states(const std::string& what) const {
    for (const StateInfo& info : rule_.states(options_, shape_)) {
      if (info.kind != StateKind::kElementwise) {
        for (const States& states : whole_states_)
          EXPECT_EQ(states.at(info.name).sizes().vec(), state_shape(info.kind, shape_)) << what;
        continue;
      }
      for (const auto& rank : parts_)
        for (const Part& part : rank)
          if (part.count > 0) EXPECT_EQ(part.states.at(info.name).numel(), part.count) << what;
    }
  }

 private:
  const Rule& rule_;
  Hyper options_;
  std::vector<int64_t> shape_;
  Parts parts_;
  std::vector<States> whole_states_;
};

Tensor tensor_of(const json& values, const std::vector<int64_t>& shape, at::ScalarType dtype) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble).view(shape).to(dtype);
}

void expect_values_of_oracle(const json& one, const std::string& layout, at::ScalarType dtype,
                             double factor) {
  const auto under_test = rule(one.at("rule").get<std::string>());
  const Hyper options = complete(*under_test, one.at("options").get<Hyper>());
  for (const auto& [name, shape_json] : oracle().at("shapes").items()) {
    const auto shape = shape_json.get<std::vector<int64_t>>();
    Ranks ranks(*under_test, options, shape, kLayouts.at(layout),
                tensor_of(oracle().at("initial").at(name), shape, dtype));
    for (size_t step = 0; step < oracle().at("gradients").size(); ++step) {
      const std::string what = one.at("rule").get<std::string>() + " " + one.at("options").dump() + ", " +
                               layout + ", " + name + ", step " + std::to_string(step + 1);
      // The factor undoes the scale of the gradient.
      const Tensor gradient = tensor_of(oracle().at("gradients")[step].at(name), shape, dtype) / factor;
      ranks.update(gradient, static_cast<int64_t>(step) + 1, factor);
      ranks.expect_values(tensor_of(one.at("values")[step].at(name), shape, dtype),
                          dtype == at::kFloat ? 1e-4 : 1e-12, what);
      ranks.expect_states(what);
    }
  }
}

TEST(Rules, EqualTheOracleHoweverAParameterIsCut) {
  for (const json& one : oracle().at("cases"))
    for (const auto& layout : kLayouts)
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
        for (const double factor : {1.0, 0.25}) expect_values_of_oracle(one, layout.first, dtype, factor);
}

// Uses sizes at which kernels run vectors, blocks and threads. The reference is one rank in fp64.
TEST(Rules, GiveTheSameHoweverALargeParameterIsCut) {
  at::manual_seed(7);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{30, 1237}, {3, 40, 33}, {17003}}) {
    const Tensor initial = at::randn(shape, at::kDouble), gradient = at::randn(shape, at::kDouble);
    for (const std::string& name : rule_names()) {
      const auto under_test = rule(name);
      const Hyper options = complete(*under_test, {{"lr", 0.1}, {"weight_decay", 0.2}});
      Ranks reference(*under_test, options, shape, kLayouts.at("one rank"), initial);
      for (int64_t step = 1; step <= 2; ++step) reference.update(gradient, step, 1);
      for (const auto& [layout, cut] : kLayouts)
        for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
          Ranks ranks(*under_test, options, shape, cut, initial.to(dtype));
          for (int64_t step = 1; step <= 2; ++step) ranks.update(gradient.to(dtype), step, 1);
          ranks.expect_values(reference.values().view(shape).to(dtype), dtype == at::kFloat ? 2e-6 : 1e-12,
                              name + ", " + layout + ", " + c10::toString(dtype));
        }
    }
  }
}

TEST(Rules, HaveACaseInTheOracle) {
  std::set<std::string> tested;
  for (const json& one : oracle().at("cases")) tested.insert(one.at("rule").get<std::string>());
  for (const std::string& name : rule_names()) EXPECT_TRUE(tested.contains(name)) << name;
}

}  // namespace
}  // namespace weft::optim
