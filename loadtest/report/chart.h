// Line charts as inline SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace maxsim::loadtest {

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y) with increasing x; points that are not finite are not drawn
};

struct Chart {
  std::string title, x_label, y_label;
  // at most four, which differ in colour and are named in the legend
  std::vector<Line> lines;
  bool log_y = false;                                   // logarithmic y axis, on which values <= 0 are not drawn
  bool mark_points = false;                             // draw a dot at each point
  double y_rule = 0;                                    // height of a dashed line; 0: none
  std::vector<std::pair<double, std::string>> x_ticks;  // empty: Ticks chooses them
};

// Returns one <figure> element, or "" if no line has a point.
std::string DrawChart(const Chart& chart);

// Escapes `text` for use as text or attribute value in HTML and SVG. Control characters and bytes that are not UTF-8
// are replaced (command_line::WithoutControls).
std::string EscapeHtml(const std::string& text);

// Returns three to eight round values that span [low, high].
std::vector<double> Ticks(double low, double high);

}  // namespace maxsim::loadtest
