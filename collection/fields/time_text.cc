#include "collection/fields/time_text.h"

#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace maxsim::collection {
namespace {

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kSecondsPerDay = 86'400;

// Reads the parts of a text one after another. Once a part is missing, ok() is false and nothing more is read.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool ok() const { return ok_; }
  bool at_end() const { return text_.empty(); }

  // Reads exactly `num_digits` digits.
  int64_t Number(int num_digits, int64_t low, int64_t high) {
    int64_t number = 0;
    for (int idx = 0; idx < num_digits; ++idx) number = 10 * number + Digit();
    if (number < low || number > high) ok_ = false;
    return number;
  }
  // Reads one of the characters and returns it, or '\0'.
  char OneOf(std::string_view characters) {
    if (text_.empty() || characters.find(text_[0]) == std::string_view::npos) ok_ = false;
    if (!ok_) return '\0';
    const char found = text_[0];
    text_.remove_prefix(1);
    return found;
  }
  // Reads a fraction of a second, such as ".25", and returns it in microseconds. Returns 0 if no point comes next.
  int64_t Fraction() {
    if (text_.empty() || text_[0] != '.') return 0;
    text_.remove_prefix(1);
    int64_t micros = 0;
    int64_t unit = kMicrosPerSecond / 10;
    do {
      micros += unit * Digit();
      unit /= 10;
    } while (ok_ && !text_.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text_[0])));
    return micros;
  }

 private:
  int64_t Digit() {
    const char digit = OneOf("0123456789");
    return ok_ ? digit - '0' : 0;
  }

  std::string_view text_;
  bool ok_ = true;
};

bool IsLeapYear(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

int64_t DaysOfMonth(int64_t year, int64_t month) {
  constexpr std::array<int64_t, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[static_cast<size_t>(month - 1)] + (month == 2 && IsLeapYear(year) ? 1 : 0);
}

// Returns the days since 1970-01-01 in the Gregorian calendar. Counts years from March, so that a leap day is the last
// day of its year. 400 years (146,097 days) are added and subtracted, so that no term is negative.
int64_t DaysSinceEpoch(int64_t year, int64_t month, int64_t day) {
  const int64_t from_march = year + 400 - (month <= 2 ? 1 : 0);  // is not negative
  const int64_t day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
  return from_march * 365 + from_march / 4 - from_march / 100 + from_march / 400 + day_of_year - 719'468 - 146'097;
}

}  // namespace

std::optional<int64_t> ParseTime(std::string_view text) {
  Reader reader(text);
  const int64_t year = reader.Number(4, 0, 9999);
  reader.OneOf("-");
  const int64_t month = reader.Number(2, 1, 12);
  reader.OneOf("-");
  const int64_t day = reader.Number(2, 1, 31);
  reader.OneOf("Tt");
  const int64_t hour = reader.Number(2, 0, 23);
  reader.OneOf(":");
  const int64_t minute = reader.Number(2, 0, 59);
  reader.OneOf(":");
  const int64_t second = reader.Number(2, 0, 60);
  const int64_t micros = reader.Fraction();
  const char sign = reader.OneOf("Zz+-");
  int64_t offset = 0;  // seconds that the local time is ahead
  if (sign == '+' || sign == '-') {
    offset = 3600 * reader.Number(2, 0, 23);
    reader.OneOf(":");
    offset += 60 * reader.Number(2, 0, 59);
    if (sign == '-') offset = -offset;
  }
  if (!reader.ok() || !reader.at_end() || day > DaysOfMonth(year, month)) return std::nullopt;
  const int64_t seconds =
      DaysSinceEpoch(year, month, day) * kSecondsPerDay + hour * 3600 + minute * 60 + second - offset;
  const int64_t time = seconds * kMicrosPerSecond + micros;
  if (time < kMinTimeMicros || time > kMaxTimeMicros) return std::nullopt;
  return time;
}

std::string FormatTime(int64_t micros) {
  // Count from 0000-01-01, so that no number is negative.
  const int64_t from_year_0 = micros - kMinTimeMicros;
  int64_t days = from_year_0 / (kSecondsPerDay * kMicrosPerSecond);
  const int64_t in_day = from_year_0 % (kSecondsPerDay * kMicrosPerSecond);
  int64_t year = days / 366;
  const auto first_day = [](int64_t of_year) { return DaysSinceEpoch(of_year, 1, 1) - DaysSinceEpoch(0, 1, 1); };
  while (first_day(year + 1) <= days) ++year;
  days -= first_day(year);
  int64_t month = 1;
  while (days >= DaysOfMonth(year, month)) days -= DaysOfMonth(year, month++);
  const int64_t second = in_day / kMicrosPerSecond;
  const int64_t fraction = in_day % kMicrosPerSecond;
  std::string text = absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d", year, month, days + 1, second / 3600,
                                     second / 60 % 60, second % 60);
  if (fraction != 0) absl::StrAppendFormat(&text, ".%06d", fraction);
  return text + "Z";
}

}  // namespace maxsim::collection
