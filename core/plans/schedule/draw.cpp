#include "schedule/draw.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace weft::pipeline {

namespace {

// Pixels.
constexpr double kLeft = 72, kTop = 40, kRight = 16, kRow = 30, kBar = 24, kOperation = 26, kDigit = 7.5;
constexpr double kNarrowest = 640, kWidest = 16000;

struct Look {
  const char* name;
  const char* fill;
};
// In the order of Kind. These colours can be told apart by people with any kind of colour vision.
constexpr std::array<Look, 4> kLooks = {{{"forward", "#56b4e9"},
                                         {"backward", "#e69f00"},
                                         {"input gradient", "#f0c24b"},
                                         {"weight gradient", "#3aa583"}}};
constexpr Look kWaiting = {"waiting", "#e4e4e4"};

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += character;
    }
  }
  return escaped;
}

class Picture {
 public:
  Picture(const Schedule& schedule, const Simulation& times) : schedule_(schedule), times_(times) {
    size_t most = 1;
    for (const auto& operations : schedule.operations) most = std::max(most, operations.size());
    width_ = std::clamp(kOperation * static_cast<double>(most), kNarrowest, kWidest);
    scale_ = times.makespan > 0 ? width_ / times.makespan : 0;
  }

  std::string draw(std::string_view title) {
    const double height = kTop + kRow * schedule_.stages + 2 * kRow;
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"8\" y=\"24\" font-size=\"15\">{2}</text>\n",
        kLeft + width_ + kRight, height, escape(title));
    for (uint32_t stage = 0; stage < schedule_.stages; ++stage) draw_stage(stage);
    draw_legend(kTop + kRow * schedule_.stages + kRow / 2);
    return text_ + "</svg>\n";
  }

 private:
  void rectangle(double x, double y, double width, const char* fill, double opacity,
                 std::string_view inside) {
    text_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"", x,
                         y, width, kBar, fill);
    if (opacity < 1) text_ += fmt::format(" fill-opacity=\"{:.2f}\"", opacity);
    text_ += inside.empty() ? "/>\n" : fmt::format(" stroke=\"white\">{}</rect>\n", inside);
  }

  void draw_stage(uint32_t stage) {
    const double y = kTop + kRow * stage;
    text_ += fmt::format("<text x=\"8\" y=\"{:.0f}\">stage {}</text>\n", y + 16, stage);
    rectangle(kLeft, y, width_, kWaiting.fill, 1, "");
    for (size_t index = 0; index < schedule_.operations[stage].size(); ++index)
      draw_operation(schedule_.operations[stage][index], times_.stages[stage].operations[index], y);
  }

  void draw_operation(const Operation& operation, const Interval& time, double y) {
    const Look& look = kLooks[static_cast<size_t>(operation.kind)];
    const double x = kLeft + scale_ * time.begin, width = scale_ * time.length();
    // White below, so that a pale colour does not mix with that of waiting.
    const double opacity = 1 - 0.55 * operation.chunk / std::max(1U, schedule_.chunks - 1);
    if (opacity < 1) rectangle(x, y, width, "white", 1, "");
    rectangle(x, y, width, look.fill, opacity,
              fmt::format("<title>{}: {:.6g} to {:.6g}</title>", name_of(operation, schedule_.chunks),
                          time.begin, time.end));
    const std::string number = fmt::format("{}", operation.micro_batch);
    if (width < kDigit * static_cast<double>(number.size()) + 2) return;
    text_ += fmt::format(
        "<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\" pointer-events=\"none\">{}</text>\n",
        x + width / 2, y + 16, number);
  }

  void draw_legend(double y) {
    double x = kLeft;
    const auto entry = [&](const Look& look) {
      rectangle(x, y, kBar, look.fill, 1, "");
      text_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x + kBar + 6, y + 16, look.name);
      x += kBar + 24 + kDigit * static_cast<double>(std::string_view(look.name).size());
    };
    for (size_t kind = 0; kind < kLooks.size(); ++kind)
      if (uses(static_cast<Kind>(kind))) entry(kLooks[kind]);
    entry(kWaiting);
    if (schedule_.chunks > 1)
      text_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">paler: later chunks</text>\n", x, y + 16);
  }

  bool uses(Kind kind) const {
    return std::any_of(schedule_.operations.begin(), schedule_.operations.end(), [&](const auto& operations) {
      return std::any_of(operations.begin(), operations.end(),
                         [&](const Operation& operation) { return operation.kind == kind; });
    });
  }

  const Schedule& schedule_;
  const Simulation& times_;
  double width_ = 0;  // of the rows
  double scale_ = 0;  // pixels for a unit of time
  std::string text_;
};

}  // namespace

std::string draw_svg(const Schedule& schedule, const Simulation& times, std::string_view title) {
  return Picture(schedule, times).draw(title);
}

}  // namespace weft::pipeline
