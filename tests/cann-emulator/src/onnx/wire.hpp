// Protocol Buffers' wire format: just enough to read an ONNX model where it lies and to write one.
// https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace wire {

struct Malformed : std::runtime_error {
    Malformed() : std::runtime_error("malformed protocol buffer") {}
};

/// One field of a message. Which member holds the value depends on the field's type in the schema.
struct Field {
    std::uint32_t number = 0;
    std::uint64_t value = 0;    // varint, 32- and 64-bit
    std::string_view bytes;     // length-delimited: a string, a message, packed numbers
    bool delimited = false;
    std::string_view encoded;   // the field with its tag, for copying
};

/// Walks over the fields of a message, in their order.
class Reader {
public:
    explicit Reader(std::string_view message) : rest_(message) {}

    bool next(Field& field) {
        if (rest_.empty()) return false;
        const auto start = rest_;
        const auto tag = varint();
        field = {};
        field.number = static_cast<std::uint32_t>(tag >> 3);
        switch (tag & 7) {
            case 0: field.value = varint(); break;
            case 1: field.value = fixed(8); break;
            case 2:
                field.bytes = take(varint());
                field.delimited = true;
                break;
            case 5: field.value = fixed(4); break;
            default: throw Malformed();
        }
        field.encoded = start.substr(0, start.size() - rest_.size());
        return true;
    }

    bool done() const { return rest_.empty(); }

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            value |= std::uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) return value;
        }
        throw Malformed();
    }

private:
    std::uint64_t fixed(unsigned size) {
        const auto bytes = take(size);
        std::uint64_t value = 0;
        for (unsigned i = 0; i < size; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
        return value;
    }

    std::string_view take(std::uint64_t size) {
        if (size > rest_.size()) throw Malformed();
        const auto taken = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return taken;
    }

    std::string_view rest_;
};

/// The numbers of a repeated integer field, which may come packed or one by one.
inline void append_integers(const Field& field, std::vector<std::int64_t>& numbers) {
    if (!field.delimited) {
        numbers.push_back(static_cast<std::int64_t>(field.value));
        return;
    }
    for (Reader packed(field.bytes); !packed.done();) numbers.push_back(static_cast<std::int64_t>(packed.varint()));
}

/// Builds a message.
class Writer {
public:
    Writer& integer(std::uint32_t number, std::int64_t value) {
        varint(std::uint64_t{number} << 3);
        varint(static_cast<std::uint64_t>(value));
        return *this;
    }

    Writer& bytes(std::uint32_t number, std::string_view value) {
        varint(std::uint64_t{number} << 3 | 2);
        varint(value.size());
        message_ += value;
        return *this;
    }

    Writer& float32(std::uint32_t number, float value) {
        varint(std::uint64_t{number} << 3 | 5);
        message_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }

    /// A field as it stands in another message.
    Writer& copy(const Field& field) {
        message_ += field.encoded;
        return *this;
    }

    const std::string& message() const { return message_; }

private:
    void varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7) message_ += static_cast<char>(value | 0x80);
        message_ += static_cast<char>(value);
    }

    std::string message_;
};

}  // namespace wire
