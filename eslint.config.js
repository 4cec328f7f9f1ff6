// Rules for the page's code; tsc checks the names and the types.

import js from "@eslint/js";

export default [
    { ignores: ["**/vendor/", "build/", "dist/", ".venv/"] },
    { files: ["**/*.js"], ...js.configs.recommended },
    {
        linterOptions: { reportUnusedDisableDirectives: "error" },
        rules: {
            "no-undef": "off",
            complexity: ["error", 16],
            curly: ["error", "multi-line"],
            eqeqeq: "error",
            "no-console": "error",
            "no-else-return": "error",
            "no-param-reassign": "error",
            "no-shadow": ["error", { builtinGlobals: false }],
            "no-var": "error",
            "object-shorthand": "error",
            "prefer-const": "error",
            "prefer-template": "error",
            "require-await": "error",
        },
    },
];
