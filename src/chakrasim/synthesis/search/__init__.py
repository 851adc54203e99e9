"""The search for laws: of numbers at the level on which they vary, of what adds up along loops, of whole programs."""
