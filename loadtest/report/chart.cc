#include "loadtest/report/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/command_line/terminal.h"

namespace maxsim::loadtest {
namespace {

constexpr double kWidth = 640, kHeight = 260;
constexpr double kLeft = 64, kRight = 16, kTop = 12, kBottom = 40;

// Returns a value as the text of a tick: "25k", "1.5", "0.02".
std::string TickText(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%.4gG", value * 1e-9);
  if (size >= 1e6) return absl::StrFormat("%.4gM", value * 1e-6);
  if (size >= 1e4) return absl::StrFormat("%.4gk", value * 1e-3);
  return absl::StrFormat("%.4g", value);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    for (const Line& line : chart.lines) {
      for (const auto& [x, y] : line.points) {
        if (!Usable(x, y)) continue;
        x_low_ = std::min(x_low_, x);
        x_high_ = std::max(x_high_, x);
        y_low_ = std::min(y_low_, y);
        y_high_ = std::max(y_high_, y);
      }
    }
    if (empty()) return;
    if (chart.y_rule > 0) {
      y_low_ = std::min(y_low_, chart.y_rule);
      y_high_ = std::max(y_high_, chart.y_rule);
    }
    if (x_high_ <= x_low_) x_high_ = x_low_ + 1;
    if (chart.log_y) {
      y_low_ = std::pow(10, std::floor(std::log10(y_low_)));
      y_high_ = std::max(std::pow(10, std::ceil(std::log10(y_high_))), 10 * y_low_);
    } else {
      y_low_ = std::min(y_low_, 0.0);
      if (y_high_ <= y_low_) y_high_ = y_low_ + 1;
      y_high_ = std::max(y_high_, Ticks(y_low_, y_high_).back());
    }
  }

  bool empty() const { return x_low_ > x_high_; }

  std::string Draw() const {
    std::string svg = absl::StrFormat("<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n", kWidth, kHeight,
                                      EscapeHtml(chart_.title));
    DrawAxes(svg);
    for (size_t i = 0; i < chart_.lines.size(); ++i) DrawLine(chart_.lines[i], i, svg);
    if (chart_.y_rule > 0) {
      const double y = Y(chart_.y_rule);
      absl::StrAppendFormat(&svg, "<line class=\"rule\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", kLeft, y,
                            kWidth - kRight, y);
    }
    return svg + "</svg>\n";
  }

 private:
  bool Usable(double x, double y) const { return std::isfinite(x) && std::isfinite(y) && (!chart_.log_y || y > 0); }
  double X(double x) const { return kLeft + (x - x_low_) / (x_high_ - x_low_) * (kWidth - kLeft - kRight); }
  double Y(double y) const {
    const double share =
        chart_.log_y ? std::log10(y / y_low_) / std::log10(y_high_ / y_low_) : (y - y_low_) / (y_high_ - y_low_);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

  void DrawAxes(std::string& svg) const {
    std::vector<double> rows = Ticks(y_low_, y_high_);
    if (chart_.log_y) {
      rows.clear();
      const auto decades = static_cast<int>(std::lround(std::log10(y_high_ / y_low_)));
      for (int i = 0; i <= decades; ++i) rows.push_back(y_low_ * std::pow(10, i));
    }
    for (const double y : rows) {
      absl::StrAppendFormat(&svg,
                            "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
                            "<text class=\"right\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                            kLeft, Y(y), kWidth - kRight, Y(y), kLeft - 6, Y(y) + 4, TickText(y));
    }
    std::vector<std::pair<double, std::string>> columns = chart_.x_ticks;
    if (columns.empty()) {
      for (const double x : Ticks(x_low_, x_high_)) {
        if (x >= x_low_ && x <= x_high_) columns.emplace_back(x, TickText(x));
      }
    }
    for (const auto& [x, text] : columns) {
      absl::StrAppendFormat(&svg, "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", X(x),
                            kHeight - kBottom + 16, EscapeHtml(text));
    }
    absl::StrAppendFormat(&svg,
                          "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
                          "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                          kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, (kLeft + kWidth - kRight) / 2,
                          kHeight - 6, EscapeHtml(chart_.x_label));
  }

  void DrawLine(const Line& line, size_t number, std::string& svg) const {
    std::string path, dots;
    for (const auto& [x, y] : line.points) {
      if (!Usable(x, y)) continue;
      absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : " L", X(x), Y(y));
      if (chart_.mark_points || line.points.size() == 1) {
        absl::StrAppendFormat(&dots, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", number, X(x), Y(y));
      }
    }
    if (!path.empty()) absl::StrAppendFormat(&svg, "<path class=\"c%d\" d=\"%s\"/>%s\n", number, path, dots);
  }

  const Chart& chart_;
  double x_low_ = INFINITY, x_high_ = -INFINITY, y_low_ = INFINITY, y_high_ = -INFINITY;
};

}  // namespace

std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (const char c : command_line::WithoutControls(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::vector<double> Ticks(double low, double high) {
  if (!(high > low)) return {low};
  const double raw = (high - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double step = raw / power <= 1   ? power
                      : raw / power <= 2 ? 2 * power
                      : raw / power <= 5 ? 5 * power
                                         : 10 * power;
  std::vector<double> ticks;
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  const auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string DrawChart(const Chart& chart) {
  const Drawing drawing(chart);
  if (drawing.empty()) return "";
  std::string html = absl::StrCat("<figure>\n<figcaption>", EscapeHtml(chart.title), " <span>",
                                  EscapeHtml(chart.y_label), "</span></figcaption>\n", drawing.Draw());
  if (chart.lines.size() > 1) {
    html += "<p class=\"legend\">";
    for (size_t i = 0; i < chart.lines.size(); ++i) {
      if (chart.lines[i].points.empty()) continue;
      absl::StrAppend(&html, "<span class=\"key k", i, "\"></span>", EscapeHtml(chart.lines[i].name), " ");
    }
    html += "</p>\n";
  }
  return html + "</figure>\n";
}

}  // namespace maxsim::loadtest
