#include "tools/maxsimctl/read/explain_view.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "tools/command_line/terminal.h"

namespace maxsim::ctl {
namespace {

constexpr int kBarCells = 20;

double Weight(const Explanation& e, size_t i) { return e.weights.empty() ? 1.0 : static_cast<double>(e.weights[i]); }

// Returns a bar for a share of the largest value, in plain characters or in blocks of an eighth of a cell.
std::string Bar(double share, bool color) {
  const double clamped = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  if (!color) {
    std::string bar(static_cast<size_t>(std::lround(clamped * kBarCells)), '#');
    return bar;
  }
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::lround(clamped * kBarCells * 8));
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kEighths[eighths % 8];
}

std::string TokenName(const std::vector<std::string>& tokens, size_t i) {
  return i < tokens.size() ? command_line::WithoutControls(tokens[i]) : "#" + std::to_string(i);
}

// Returns the largest similarity, to which bars and colours are scaled. Returns 1 if no similarity is positive.
double Scale(const std::vector<float>& similarities) {
  float largest = 0;
  for (const float s : similarities) largest = std::max(largest, s);
  return largest > 0 ? static_cast<double>(largest) : 1.0;
}

void RenderTable(const Explanation& e, const ExplainStyle& style, std::ostream& out) {
  std::vector<size_t> order(e.matches.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (style.by_contribution) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return Weight(e, a) * e.similarities[a] > Weight(e, b) * e.similarities[b];
    });
  }
  const bool weighted = !e.weights.empty();
  const double scale = Scale(e.similarities);
  std::vector<command_line::Table::Column> columns = {
      {"#", command_line::Align::kRight}, {"query token"}, {"similarity", command_line::Align::kRight}, {""}};
  if (weighted) {
    columns.push_back({"weight", command_line::Align::kRight});
    columns.push_back({"contribution", command_line::Align::kRight});
  }
  columns.push_back({"at", command_line::Align::kRight});
  columns.push_back({"document token"});
  command_line::Table table(columns);
  for (const size_t i : order) {
    std::string bar = Bar(e.similarities[i] / scale, style.color);
    bar.append(static_cast<size_t>(kBarCells - command_line::Width(bar)), ' ');
    std::vector<std::string> row = {std::to_string(i), TokenName(e.query_tokens, i),
                                    command_line::Fixed(e.similarities[i], 4), bar};
    if (weighted) {
      row.push_back(command_line::Fixed(Weight(e, i), 3));
      row.push_back(command_line::Fixed(Weight(e, i) * e.similarities[i], 4));
    }
    row.push_back(std::to_string(e.matches[i]));
    std::string token = TokenName(e.document_tokens, e.matches[i]);
    row.push_back(style.color ? command_line::Heated(" " + token + " ", e.similarities[i] / scale) : token);
    table.AddRow(std::move(row));
  }
  table.Print(out);
}

// Returns the part of the score that each document token contributes.
std::vector<double> Won(const Explanation& e) {
  std::vector<double> won(e.document_tokens.size(), 0.0);
  for (size_t i = 0; i < e.matches.size(); ++i) {
    if (e.matches[i] < won.size()) won[e.matches[i]] += Weight(e, i) * e.similarities[i];
  }
  return won;
}

// Writes the document's word pieces in order, with line breaks, each on a background that shows its part of the score.
void RenderHeatMap(const Explanation& e, int columns, std::ostream& out) {
  const std::vector<double> won = Won(e);
  const double largest = std::max(*std::max_element(won.begin(), won.end()), 1e-30);
  int used = 0;
  for (size_t t = 0; t < e.document_tokens.size(); ++t) {
    std::string piece = command_line::WithoutControls(e.document_tokens[t]);
    const bool joined = piece.size() > 2 && piece.rfind("##", 0) == 0;
    if (joined) piece.erase(0, 2);
    const int width = command_line::Width(piece);
    if (used > 0 && used + width + (joined ? 0 : 1) > columns) {
      out << '\n';
      used = 0;
    }
    if (used > 0 && !joined) {
      out << ' ';
      ++used;
    }
    out << (won[t] > 0 ? command_line::Heated(piece, won[t] / largest) : piece);
    used += width;
  }
  out << '\n';
}

}  // namespace

std::string RenderExplanation(const Explanation& e, const ExplainStyle& style) {
  std::ostringstream out;
  if (!e.query_label.empty()) out << "query     " << command_line::WithoutControls(e.query_label) << '\n';
  out << "document  " << command_line::WithoutControls(e.document_label) << '\n';
  out << "score     " << command_line::Fixed(e.score, 6) << ", the sum over " << e.matches.size() << " query tokens of "
      << (e.weights.empty() ? "their similarities\n\n" : "weight x similarity\n\n");
  RenderTable(e, style, out);
  if (style.color && !e.document_tokens.empty()) {
    out << "\nThe document, by what each word piece won of the score:\n\n";
    RenderHeatMap(e, style.columns, out);
  }
  return out.str();
}

}  // namespace maxsim::ctl
