#include "tools/command_line/terminal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace maxsim::command_line {
namespace {

// Returns the length of the UTF-8 sequence that starts at text[i], or 0 if none does.
size_t SequenceLength(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(i);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xc2 && first < 0xe0 ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::string Format(const char* format, int decimals, double value) {
  std::array<char, 400> text;  // the widest double has 309 digits before the point
  const int length = std::snprintf(text.data(), text.size(), format, decimals, value);
  return std::string(text.data(), std::min<size_t>(static_cast<size_t>(std::max(length, 0)), text.size() - 1));
}

}  // namespace

std::string WithoutControls(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text, i);
    if (length == 0) {
      result += '?';
      ++i;
      continue;
    }
    const auto first = static_cast<unsigned char>(text[i]);
    // Controls: C0 (below U+0020), DEL, and also C1 (U+0080 to U+009F), which some terminals obey.
    const bool control = first < 0x20 || first == 0x7f ||
                         (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    if (control) {
      result += ' ';
    } else {
      result.append(text.substr(i, length));
    }
    i += length;
  }
  return result;
}

int Width(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Shorten(std::string_view text, int width) {
  if (Width(text) <= width) return std::string(text);
  if (width <= 0) return "";
  size_t end = 0;
  for (int cells = 0; end < text.size(); ++end) {
    if (!IsContinuation(text[end]) && ++cells == width) break;
  }
  std::string result(text.substr(0, end));
  return result.append("…");
}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, int max_width) const {
  std::vector<int> widths;
  int used = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = Width(columns_[c].name);
    for (const auto& row : rows_) width = std::max(width, Width(row[c]));
    widths.push_back(width);
    if (c + 1 < columns_.size()) used += width + 2;
  }
  if (max_width > 0) widths.back() = std::min(widths.back(), std::max(max_width - used, 10));
  const auto print_row = [&](const auto& cell_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const bool last = c + 1 == columns_.size();
      const std::string cell = last ? Shorten(cell_of(c), widths[c]) : std::string(cell_of(c));
      const std::string padding(static_cast<size_t>(std::max(widths[c] - Width(cell), 0)), ' ');
      line += columns_[c].align == Align::kRight ? padding + cell : last ? cell : cell + padding;
      if (!last) line += "  ";
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  print_row([&](size_t c) -> const std::string& { return columns_[c].name; });
  for (const auto& row : rows_) print_row([&](size_t c) -> const std::string& { return row[c]; });
}

std::string Fixed(double value, int decimals) { return Format("%.*f", decimals, value); }

std::string Scientific(double value) { return Format("%.*e", 1, value); }

std::string Heated(std::string_view text, double heat) {
  static constexpr std::array kRamp = {17, 18, 54, 90, 126, 162, 198, 203, 209, 215, 221, 227};
  static constexpr int kFirstBright = 7;  // from here on black text reads better than white
  const double clamped = std::isfinite(heat) ? std::clamp(heat, 0.0, 1.0) : 0.0;
  const auto step = static_cast<size_t>(std::lround(clamped * (kRamp.size() - 1)));
  std::string result = "\033[48;5;";
  result += std::to_string(kRamp[step]);
  result += static_cast<int>(step) >= kFirstBright ? ";38;5;16m" : ";38;5;231m";
  result += text;
  return result += "\033[0m";
}

}  // namespace maxsim::command_line
