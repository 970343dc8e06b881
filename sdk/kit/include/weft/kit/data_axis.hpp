// The data-parallel half of a strategy: which rank keeps which parameters, gradients and optimizer states,
// and when they are communicated.
//
// A strategy that replicates the parameters on all data-parallel ranks selects one of these classes and reads
// options:
//
//   using namespace weft::plugin;
//   class Mine final : public kit::DataParallelStrategy<Mine> {
//    public:
//     static std::unique_ptr<kit::DataAxis> data_axis(const Options& options) {
//       return kit::WholeGradients::from_options(options, "bucket_cap_mb");
//     }
//   };
//   WEFT_STRATEGY(Mine, "mine")
#pragma once

#include <memory>

#include "weft/torch/strategy.hpp"

namespace weft::plugin::kit {

// Data parallelism of one kind. Its functions are called from the hooks of a strategy. Contracts:
// weft/strategy.h.
class DataAxis {
 public:
  virtual ~DataAxis() = default;

  // Reads the values of all parameters and binds their storage.
  virtual void configure(const Training& training) = 0;
  virtual void before_forward(Unit unit) = 0;
  virtual void begin(const Pass& pass) = 0;
  virtual void ready(Parameter parameter) = 0;
  virtual void unit_done(Unit unit) = 0;
  virtual void end() = 0;
  virtual void publish(ShardSink& sink) const = 0;
  virtual void values_changed() = 0;
  virtual void zero() = 0;

  // Estimates what one of `ranks` data-parallel ranks holds and sends. May be called without configure().
  virtual void estimate(int64_t ranks, const weft_job_shape& job, weft_job_estimate& out) const = 0;
};

// A strategy that passes its hooks to a DataAxis, which the static function T::data_axis(const Options&)
// creates.
template <class T>
class DataParallelStrategy : public Strategy {
 public:
  static constexpr uint64_t kFlags = WEFT_STRATEGY_KEEPS_STORAGE;

  void configure(Training& made) override {
    axis_ = T::data_axis(options);
    axis_->configure(made);
  }
  void before_forward(Unit unit, const Pass&) override { axis_->before_forward(unit); }
  void begin_backward(const Pass& pass) override { axis_->begin(pass); }
  void gradient_ready(Parameter parameter, const Pass&) override { axis_->ready(parameter); }
  void after_backward(Unit unit, const Pass&) override { axis_->unit_done(unit); }
  void end_backward(const Pass&) override { axis_->end(); }
  void publish(ShardSink& sink) const override { axis_->publish(sink); }
  void values_changed(uint32_t) override { axis_->values_changed(); }
  void zero_gradients() override { axis_->zero(); }

  static void estimate(const Options& options, uint32_t ranks, const weft_job_shape& job,
                       weft_job_estimate& out) {
    T::data_axis(options)->estimate(ranks, job, out);
  }

 protected:
  const DataAxis& axis() const { return *axis_; }

 private:
  std::unique_ptr<DataAxis> axis_;  // created in configure
};

}  // namespace weft::plugin::kit
