// Makes text for terminals: tables, widths, colours. Everything a server or a file supplied goes through
// WithoutControls before it is written, so that no payload can send control sequences to the terminal.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace maxsim::command_line {

// Returns `text` with a space for every control character and '?' for every byte that is not UTF-8.
std::string WithoutControls(std::string_view text);

// Returns the terminal cells that printable text takes: its code points. Wide characters are counted as one.
int Width(std::string_view text);

// Returns at most `width` cells of the text. If it was cut, the last one is an ellipsis.
std::string Shorten(std::string_view text, int width);

enum class Align { kLeft, kRight };

// Holds rows of cells in columns of equal width, two spaces apart, with a header above. Nothing trails the last column.
class Table {
 public:
  struct Column {
    std::string name;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row of as many cells as columns; a missing one is empty.
  void AddRow(std::vector<std::string> cells);

  // With `max_width` the last column is shortened so that no line is wider (it keeps 10 cells at least).
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
