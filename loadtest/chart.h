// Line charts as inline SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace maxsim::loadtest {

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y; x in rising order; those that are not finite are left out
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Line> lines;                              // at most four, told apart by colour and by the legend
  bool log_y = false;                                   // then values <= 0 are left out
  bool mark_points = false;                             // a dot at each point
  double y_rule = 0;                                    // a dashed line at this height; 0: none
  std::vector<std::pair<double, std::string>> x_ticks;  // empty: chosen
};

// Returns one <figure>. Empty where no line has a point.
std::string DrawChart(const Chart& chart);

// For text and attribute values of HTML and SVG; what is not UTF-8, or a control character, becomes '?'.
std::string EscapeHtml(const std::string& text);

// Returns three to eight round values that span [low, high].
std::vector<double> Ticks(double low, double high);

}  // namespace maxsim::loadtest
