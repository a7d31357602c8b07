#include "niskin/zarr/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "niskin/base/error.h"

namespace niskin::zarr {
namespace {

constexpr int kMaxDepth = 500;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number that from_chars could not represent: beyond the largest float64, or merely below the
// smallest?
bool overflows(std::string_view number) {
  const std::size_t exponent_at = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, exponent_at);
  const std::size_t first = mantissa.find_first_of("123456789");
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  if (first == std::string_view::npos) return false;
  // Power of ten of the first digit that is not zero.
  std::int64_t magnitude = first < point ? static_cast<std::int64_t>(point - first) - 1
                                         : -static_cast<std::int64_t>(first - point);
  if (exponent_at != std::string_view::npos) {
    std::string_view digits = number.substr(exponent_at + 1);
    if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
    std::int64_t exponent = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (parsed.ec == std::errc::result_out_of_range) return digits.front() != '-';
    // Far beyond any float64 the mantissa cannot matter, and the sum below cannot overflow.
    exponent = std::clamp<std::int64_t>(exponent, -(std::int64_t{1} << 60), std::int64_t{1} << 60);
    magnitude += exponent;
  }
  return magnitude > 0;
}

// Text that a strict parser accepts, and where each byte of it came from.
class StrictText {
 public:
  explicit StrictText(std::string_view text) : text_(text) {
    strict_.reserve(text.size() + 64);
    while (at_ < text_.size()) step();
  }

  const std::string& strict() const { return strict_; }

  Error error(std::size_t strict_byte, std::string_view what) const {
    std::size_t at = std::min(strict_byte, strict_.size());
    for (auto shift = shifts_.rbegin(); shift != shifts_.rend(); ++shift) {
      if (shift->strict_end <= at) {
        at = at - shift->strict_end + shift->text_end;
        break;
      }
    }
    return error_at(std::min(at, text_.size()), what);
  }

 private:
  struct Shift {
    std::size_t strict_end;  // first byte after a replacement
    std::size_t text_end;
  };

  Error error_at(std::size_t at, std::string_view what) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t line_start = before.rfind('\n');
    const std::size_t column = line_start == std::string_view::npos ? at + 1 : at - line_start;
    return format_error(
        fmt::format("not valid JSON at line {}, column {}: {}", line, column, what));
  }

  void step() {
    const char c = text_[at_];
    if (c == '"') {
      copy_string();
    } else if (is_digit(c) || (c == '-' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      copy_number();
    } else if (replace("NaN") || replace("Infinity") || replace("-Infinity")) {
      return;
    } else {
      if (c == '[' || c == '{') {
        if (++depth_ > kMaxDepth)
          throw error_at(at_, fmt::format("nested deeper than {}", kMaxDepth));
      } else if (c == ']' || c == '}') {
        --depth_;
      }
      strict_ += c;
      ++at_;
    }
  }

  void copy_string() {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
    strict_ += text_.substr(begin, at_ - begin);
  }

  void copy_number() {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_not_of("0123456789+-.eE", begin), text_.size());
    const std::string_view number = text_.substr(begin, at_ - begin);
    double value = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
    if (parsed.ec == std::errc::result_out_of_range && overflows(number)) {
      put_quoted(number.front() == '-' ? "-Infinity" : "Infinity");
    } else {
      strict_ += number;
    }
  }

  bool replace(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    put_quoted(token);
    return true;
  }

  void put_quoted(std::string_view token) {
    strict_ += '"';
    strict_ += token;
    strict_ += '"';
    shifts_.push_back({strict_.size(), at_});
  }

  std::string_view text_;
  std::string strict_;
  std::vector<Shift> shifts_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  const StrictText source(text);
  try {
    return nlohmann::json::parse(source.strict());
  } catch (const nlohmann::json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …": the place is ours.
    std::string_view what = error.what();
    const std::size_t colon = what.find(": ");
    if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
    throw source.error(error.byte == 0 ? 0 : error.byte - 1, what);
  }
}

}  // namespace niskin::zarr
