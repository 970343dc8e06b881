#include "contract/ranks.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

using nlohmann::json;

// Joins the ranks of the case and runs the body. Returns the report.
json be_a_rank(int rank, int count, int port, const RankBody& body, const Limits& limits, World& world) {
  Findings findings;
  json failure;
  try {
    world = launch(rank, count, "127.0.0.1", port, limits.collective);
    body(world, findings);
  } catch (const std::exception& exception) {
    const Failure what = describe(exception);
    failure = {what.status, what.text};
  } catch (...) {
    failure = {WEFT_UNKNOWN, "an exception that is no std::exception"};
  }
  return {{"checks", findings.to_json()}, {"failure", failure}};
}

RankReport read_report(ForkEnd&& fork) {
  RankReport report;
  report.fork = std::move(fork);
  if (!report.fork.end.empty()) return report;
  const json told = json::parse(report.fork.report);
  report.findings = Findings::parse(told.at("checks"));
  if (const json& failure = told.at("failure"); !failure.is_null())
    report.failure = {failure.at(0).get<weft_status>(), failure.at(1).get<std::string>()};
  return report;
}

}  // namespace

std::vector<RankReport> run_ranks(int count, const RankBody& body, const Limits& limits) {
  const auto in_fork = [&](int rank, int port, const std::function<void(const std::string&)>& report) {
    World world;
    const json told = be_a_rank(rank, count, port, body, limits, world);
    report(told.dump(-1, ' ', false, json::error_handler_t::replace));
    // A rank that ends takes its connections with it, also those that a slower one still needs.
    if (told.at("failure").is_null()) world.communicator().barrier();
  };
  const auto failed = [](const std::string& report) { return !json::parse(report).at("failure").is_null(); };
  std::vector<RankReport> reports;
  for (ForkEnd& fork : run_forks(count, in_fork, failed, limits))
    reports.push_back(read_report(std::move(fork)));
  return reports;
}

bool on_any_rank(const World& world, bool here) {
  if (world.size() == 1) return here;
  const at::Tensor sum = at::tensor({here ? 1.0 : 0.0}, at::kDouble);
  world.communicator().all_reduce(sum, ReduceOp::kMax, true).wait();
  return device::value_of<double>(sum) > 0;
}

namespace {

bool refuses(const RankReport& report) {
  if (!report.failure || report.findings.failed()) return false;
  const weft_status status = report.failure->status;
  return status == WEFT_UNIMPLEMENTED || status == WEFT_INVALID_ARGUMENT ||
         status == WEFT_FAILED_PRECONDITION;
}

// How surely the way in which a rank ended is the cause and not what follows from another rank's end.
int weight_of(const RankReport& report) {
  if (!report.fork.end.empty()) return report.fork.ended_by_us ? 2 : 4;
  if (!report.failure) return 0;
  const weft_status status = report.failure->status;
  return status == WEFT_UNAVAILABLE || status == WEFT_ABORTED ? 1 : 3;
}

std::string end_of_rank(size_t rank, const RankReport& report) {
  if (report.failure) {
    const std::string& text = report.failure->text;
    return text.starts_with("rank ") ? text : fmt::format("rank {}: {}", rank, text);
  }
  const std::string printed = printable(trim(report.fork.output), 600);
  return fmt::format("rank {} {}{}", rank, report.fork.end,
                     printed.empty() ? "" : fmt::format("; the last that it printed: {}", printed));
}

// Says what ended a case early, by the rank that most likely caused it; empty if all ranks ran to the end.
std::string end_of(const std::vector<RankReport>& reports) {
  size_t cause = 0;
  for (size_t rank = 1; rank < reports.size(); ++rank)
    if (weight_of(reports[rank]) > weight_of(reports[cause])) cause = rank;
  if (weight_of(reports[cause]) == 0) return "";
  std::string text = end_of_rank(cause, reports[cause]);
  if (!reports[cause].fork.ended_by_us) return text;
  for (size_t rank = 0; rank < reports.size(); ++rank)  // what the others waited for shows where it was
    if (reports[rank].failure) return text + "; " + end_of_rank(rank, reports[rank]);
  return text;
}

Findings joined(const std::vector<RankReport>& reports) {
  Findings all;
  for (size_t rank = 0; rank < reports.size(); ++rank)
    for (Check check : reports[rank].findings.checks()) {
      if (!check.passed && reports.size() > 1) check.text = fmt::format("rank {}: {}", rank, check.text);
      all.add(std::move(check));
    }
  return all;
}

}  // namespace

Outcome run_case(const Case& one, const RankBody& body, const Tell& tell, const Limits& limits) {
  const std::vector<RankReport> reports = run_ranks(one.ranks, body, limits);
  const auto named = [&](const std::string& name) { return one.title + ": " + name; };
  if (one.may_refuse && std::all_of(reports.begin(), reports.end(), refuses)) {
    tell({named("is refused on all ranks alike"), true, reports.front().failure->text});
    return Outcome::kRefused;
  }
  const Findings all = joined(reports);
  for (const Check& check : all.checks()) tell({named(check.name), check.passed, check.text});
  const std::string end = end_of(reports);
  tell({named("runs to its end"), end.empty(), end});
  return all.failed() || !end.empty() ? Outcome::kFailed : Outcome::kPassed;
}

}  // namespace weft::contract
