// The driver kairos-driver-word_count.
import { serve } from "./plugin";
import { wordCount } from "./word_count";

serve({
  descriptor: { name: "word_count", version: "0.1.0", role: "challenge", handles: ["word_count"], effect: "pure" },
  challenge: wordCount,
});
