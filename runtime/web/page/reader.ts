/** What reads texts: a script of its own, which is in pages that do. */

import { parseWordPiece } from "../src/wordpiece.ts";

globalThis.meganeuraReader = parseWordPiece;
