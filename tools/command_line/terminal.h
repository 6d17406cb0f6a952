// Makes text for terminals: tables, widths, colours. All text from a server or a file goes through WithoutControls
// before it is written, so that no payload can send control sequences to the terminal.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace maxsim::command_line {

// Returns `text` with a space for every control character and '?' for every byte that is not UTF-8.
std::string WithoutControls(std::string_view text);

// Returns the number of terminal cells of printable text, which is its number of code points. Counts wide characters as
// one.
int Width(std::string_view text);

// Returns at most `width` cells of the text. If the text was cut, the last cell is an ellipsis.
std::string Shorten(std::string_view text, int width);

enum class Align { kLeft, kRight };

// A table with a header. The cells of a column have equal width, and columns are two spaces apart. There is no space
// after the last column.
class Table {
 public:
  struct Column {
    std::string name;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row. Missing cells are empty.
  void AddRow(std::vector<std::string> cells);

  // If `max_width` is not 0, shortens the last column, but not below 10 cells, so that no line is wider.
  void Print(std::ostream& out, int max_width = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Formats with fixed decimals: Fixed(1.5, 4) is "1.5000".
std::string Fixed(double value, int decimals);

// Formats in scientific notation with one decimal: "3.1e-07".
std::string Scientific(double value);

// Returns `text` on a background between dark blue-black (heat 0) and bright yellow (heat 1), from the 256-colour
// palette.
std::string Heated(std::string_view text, double heat);

}  // namespace maxsim::command_line
