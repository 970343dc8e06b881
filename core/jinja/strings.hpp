// What templates do with strings, as Python does it. Bytes keep their origin.
#pragma once

#include <string_view>

#include "jinja/value.hpp"

namespace weft::jinja {

// Return where `part` occurs first, from a byte on, or last in a text, or npos. They take time that grows
// with the two sizes alone.
size_t find_first(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last(std::string_view text, std::string_view part);

// Takes characters away at the ends: white space if `characters` is null or None.
Text stripped(const Text& text, const Value* characters, bool left, bool right);
// Throw UNIMPLEMENTED for other characters than those of ASCII, whose tables Weft does not have.
Text upper_case(const Text& text);
Text lower_case(const Text& text);
Text capitalized(const Text& text);
// str.title() of Python, or the filter of Jinja, which begins words behind other characters.
Text title_case(const Text& text, bool filter);
// Replaces the first `count` occurrences; all if it is negative.
Text replaced(const Text& text, const Text& old, const Text& by, int64_t count);
// str.split() and, from the right, str.rsplit().
List split(const Text& text, const Arguments& arguments, bool from_right);
List lines_of(const Text& text, bool keep_ends);
// Returns whether the text begins, or ends, with one of the texts.
bool has_at_end(const Text& text, const Value& given, bool begins);
// Returns the characters from an index up to another one, both of which the text has.
Text characters_of(const Text& text, int64_t begin, int64_t end);
// Joins the elements. Unless they are taken `as_text`, each must be a string.
Text joined(const Value& items, const Text& separator, bool as_text);
// Returns the index of the character at a byte; -1 for npos.
int64_t character_at(const Text& text, size_t byte);
// Returns how often `part` occurs, without overlaps.
int64_t count_of(const Text& text, const Text& part);

}  // namespace weft::jinja
