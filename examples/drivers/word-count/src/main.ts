// The driver kairos-driver-word_count.
import { serve } from "./plugin";
import { outputSchema, paramsSchema, wordCount } from "./word_count";

serve({
  descriptor: {
    name: "word_count", version: "0.1.0", role: "challenge", handles: ["word_count"], effect: "pure",
    params_schema: paramsSchema, output_schema: outputSchema,
  },
  challenge: wordCount,
});
