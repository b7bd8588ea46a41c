// aclgrphParseONNXFromMem, of libfmk_onnx_parser.

#include "abi.hpp"
#include "rules.hpp"

#include "../core/call.hpp"
#include "../onnx/wire.hpp"

#include <climits>

namespace ge {

graphStatus aclgrphParseONNXFromMem(const char* bytes, std::size_t size, const Options&, Graph& graph) {
    return static_cast<graphStatus>(
        emulator::run_call("aclgrphParseONNXFromMem", static_cast<int>(GRAPH_FAILED), [&](emulator::LogLine& line) {
            line.add("graph", graph.impl().name).add("bytes", size);
            // The real one hands the size on as uint32_t and then int, so that a larger model is another number of bytes.
            if (size > INT_MAX) {
                throw emulator::Failure(static_cast<int>(GRAPH_FAILED),
                                        "E19999: Read onnx model from memory failed: " + std::to_string(size) +
                                            " bytes are more than protocol buffers can have.");
            }
            graph.impl().model.assign(bytes, size);
            try {
                check_parse(onnx::Model::read(graph.impl().model));
            } catch (const wire::Malformed&) {
                throw emulator::Failure(static_cast<int>(GRAPH_FAILED), "E19999: Read onnx model from memory failed.");
            }
        }));
}

}  // namespace ge
