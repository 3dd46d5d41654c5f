"""What the page may ask for, checked: anything else is refused before it reaches the store."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]  # made by the page, such as a UUID
Id = Annotated[int, Field(ge=0, lt=2**62)]
Corners = tuple[float, float, float, float]
Mode = Literal["sample", "useful"]


class Asked(BaseModel):
    """A body that the page sends; unknown keys and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Act(Asked):
    """An action of a person: its id, by which it is applied once, and the versions of the images as they were seen."""

    id: Name
    seen: dict[Id, Id] = Field(max_length=500)


class Judge(Act):
    """Boxes are right, wrong, or open again; `left_open` were seen too, and the person was not sure.

    `mode` is how the boxes were chosen, and `index` the class they were chosen of, all if not given.
    """

    kind: Literal["judge"]
    boxes: dict[Id, Literal["right", "wrong", "open"]] = Field(default_factory=dict, max_length=500)
    left_open: list[Id] = Field(default_factory=list, max_length=500)
    mode: Mode = "useful"
    index: Id | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "Judge":
        if not self.boxes and not self.left_open:
            raise ValueError("names no box")
        return self


class Change(Act):
    """A box gets other corners, another class, or both."""

    kind: Literal["change"]
    box: Id
    corners: Corners | None = None
    index: Id | None = None


class Draw(Act):
    """A new box."""

    kind: Literal["draw"]
    image: Id
    index: Id
    corners: Corners


class SetTag(Act):
    """An image shows a class, or does not."""

    kind: Literal["tag"]
    image: Id
    index: Id
    present: bool


class Finish(Act):
    """An image was seen in full: the boxes that nobody judged are right, every object has a box. Or it is open again.

    `mode` is how the image was chosen, and `index` the class it was chosen by, all if not given.
    """

    kind: Literal["finish"]
    image: Id
    done: bool = True
    mode: Mode = "useful"
    index: Id | None = None


Action = Annotated[Judge | Change | Draw | SetTag | Finish, Field(discriminator="kind")]


class Turn(Asked):
    """Undo or redo the person's last action."""

    id: Name


class Screen(Asked):
    """Boxes for the grid: `index` is their class, all if not given; `without` are on the screen already."""

    tab: Name
    mode: Mode
    index: Id | None = None
    size: int = Field(ge=1, le=120)
    without: list[Id] = Field(default_factory=list, max_length=500)


class Next(Asked):
    """The next image: one that has the class, if given; `without` was seen just now."""

    tab: Name
    mode: Mode
    index: Id | None = None
    without: list[Id] = Field(default_factory=list, max_length=500)


class Pulse(Asked):
    """The page is alive and holds these images."""

    tab: Name
    holds: list[Id] = Field(default_factory=list, max_length=500)


class Called(Asked):
    """What a reviewer wants to be called."""

    name: str = Field(min_length=1, max_length=40)
