"""The algebra, in rulesets, with the formula beside each rule."""
