#include "compiled.hpp"

#include <sstream>
#include <stdexcept>

namespace ge {
namespace {

constexpr std::string_view kMagic = "cann-emulator compiled model 1\n";

// A header of lines "key value" in this order, then the model.
constexpr const char *kGraph = "graph", *kInputShape = "input_shape", *kPrecision = "precision_mode", *kSoc = "soc",
                     *kWeights = "weight_bytes", *kWorkspace = "workspace_bytes", *kModel = "model_bytes";

class Header {
public:
    explicit Header(std::string_view rest) : rest_(rest) {}

    std::string text(const char* key) {
        const auto line = take_line();
        const auto prefix = std::string(key) + ' ';
        if (line.substr(0, prefix.size()) != prefix) throw std::runtime_error("malformed compiled model");
        return std::string(line.substr(prefix.size()));
    }

    std::size_t number(const char* key) {
        std::istringstream digits(text(key));
        std::size_t value;
        if (!(digits >> value)) throw std::runtime_error("malformed compiled model");
        return value;
    }

    std::string_view rest() const { return rest_; }

private:
    std::string_view take_line() {
        const auto end = rest_.find('\n');
        if (end == std::string_view::npos) throw std::runtime_error("truncated compiled model");
        const auto line = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        return line;
    }

    std::string_view rest_;
};

}  // namespace

std::string CompiledModel::write() const {
    std::ostringstream text;
    text << kMagic << kGraph << ' ' << graph << '\n' << kInputShape << ' ' << input_shape << '\n'
         << kPrecision << ' ' << precision_mode << '\n' << kSoc << ' ' << soc << '\n'
         << kWeights << ' ' << weight_bytes << '\n' << kWorkspace << ' ' << workspace_bytes << '\n'
         << kModel << ' ' << model.size() << '\n' << model;
    return text.str();
}

CompiledModel CompiledModel::read(std::string_view bytes) {
    if (bytes.substr(0, kMagic.size()) != kMagic) throw std::runtime_error("not a compiled model of this emulator");
    Header header(bytes.substr(kMagic.size()));
    CompiledModel compiled;
    compiled.graph = header.text(kGraph);
    compiled.input_shape = header.text(kInputShape);
    compiled.precision_mode = header.text(kPrecision);
    compiled.soc = header.text(kSoc);
    compiled.weight_bytes = header.number(kWeights);
    compiled.workspace_bytes = header.number(kWorkspace);
    const auto size = header.number(kModel);
    if (header.rest().size() != size) throw std::runtime_error("truncated compiled model");
    compiled.model = header.rest();
    return compiled;
}

}  // namespace ge
