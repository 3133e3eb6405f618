"""check_drawing.py FILE.svg...: what a person would see at a glance, by coordinates. Boxes stand inside each other or apart, never across;
all is inside the picture; text begins in a box and, by the width of its letters, ends in it; no two texts lie on each other."""
import itertools
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"
LETTER = {"s": 5.6, "h": 9.4}  # pixels of an average letter of the drawing's fonts; the 12-pixel one:
USUAL = 6.2


class Box:
    def __init__(self, left, top, width, height, name):
        self.left, self.top, self.right, self.bottom, self.name = left, top, left + width, top + height, name

    def holds(self, other, slack=0.05):
        return (self.left <= other.left + slack and self.top <= other.top + slack and other.right <= self.right + slack
                and other.bottom <= self.bottom + slack)

    def meets(self, other, slack=0.05):
        return (self.left < other.right - slack and other.left < self.right - slack and self.top < other.bottom - slack
                and other.top < self.bottom - slack)


def boxes_of(root):
    for n, rect in enumerate(root.iter(SVG + "rect")):
        if "class" in rect.attrib:
            yield Box(*(float(rect.get(key)) for key in ("x", "y", "width", "height")), f"rect {n} ({rect.get('class')})")


def texts_of(root):
    for text in root.iter(SVG + "text"):
        letters, style = text.text or "", (text.get("class") or "").split()
        width = len(letters) * next((LETTER[s] for s in style if s in LETTER), USUAL)
        left = float(text.get("x")) - (width if text.get("text-anchor") == "end" else 0)
        yield Box(left, float(text.get("y")) - 9, width, 11, f"'{letters}'")


def problems(path):
    root = tree.parse(path).getroot()
    width, height = (float(v) for v in root.get("viewBox").split()[2:])
    picture = Box(0, 0, width, height, "the picture")
    boxes, texts = list(boxes_of(root)), list(texts_of(root))
    for one in boxes + texts:
        if not picture.holds(one):
            yield f"{one.name} is cut off"
    for a, b in itertools.combinations(boxes, 2):
        if a.meets(b) and not a.holds(b) and not b.holds(a):
            yield f"{a.name} and {b.name} lie across each other"
        elif a.holds(b) and b.holds(a):
            yield f"{a.name} and {b.name} are in the same place"
    for a, b in itertools.combinations(texts, 2):
        if a.meets(b):
            yield f"{a.name} and {b.name} lie on each other"
    for text in texts:
        around = [b for b in boxes if b.holds(Box(text.left, text.top + 4, 1, 1, ""))]
        if around:
            innermost = min(around, key=lambda b: (b.right - b.left) * (b.bottom - b.top))
            if not innermost.holds(text, 3):
                yield f"{text.name} leaves {innermost.name}"
    if len(boxes) < 3:
        yield "there is hardly anything in it"


found = [f"{path}: {problem}" for path in sys.argv[1:] for problem in problems(path)]
print("\n".join(found[:20]) or f"{len(sys.argv) - 1} drawings are as they should be")
sys.exit(bool(found))
